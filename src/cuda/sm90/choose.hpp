// The wgmma kernel's row of the table: which problems it takes, which it leaves to others, and the variant
// and tile sizes of the rest.
#pragma once

#include <cstdint>
#include <string>

#include "core/kernel.hpp"
#include "cuda/sm90/configs.hpp"

namespace tessera::cuda::sm90 {

core::Kernel production_row();

// For every kernel by wgmma, which is Hopper's alone: why this GPU, or this build, is not for it; empty if it
// is.
std::string missing_for_wgmma(const core::Device& device, bool in_build);
// Positions in the list of row tiles are ints, also those of a round or two past the end.
core::Status check_tiles(std::int64_t tiles);

// How a problem is cut up; see schedule.hpp.
struct Choice {
  Variant variant;
  Tiling tiling;
  std::int64_t row_tiles;  // of a head
  std::int64_t total;      // of all heads and batch entries
  bool unequal;            // later tiles of a head are more work
  double share;    // of the keys that the longest row tile of a head visits, what one visits on average
  double visited;  // keys that a row tile visits, on average
  int blocks;      // that share the tiles; split and narrow have one for each
};

// Of a problem that is supported, on a GPU of so many SMs.
Choice choose(const core::Problem& problem, int sms);

// For tests: the head dims a problem is padded to, and the estimate that choices are made by, in rows
// (estimate.hpp).
HeadDims padded_dims(const core::Problem& problem);
double estimate(const Choice& choice, int sms);

}  // namespace tessera::cuda::sm90
