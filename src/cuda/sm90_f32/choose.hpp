// The row of the table for f32 on Hopper's tensor cores: which problems it takes, and the variant and tile
// sizes of each.
#pragma once

#include <cstdint>

#include "core/kernel.hpp"
#include "cuda/sm90_f32/config.hpp"

namespace tessera::cuda::sm90_f32 {

core::Kernel production_row();

// How a problem is cut up; see sm90/schedule.hpp.
struct Choice {
  Variant variant;
  Config config;
  std::int64_t row_tiles;  // of the heads that share K and V
  std::int64_t total;      // of all heads and batch entries
  bool unequal;            // later tiles of a head are more work
  double share;  // of the keys that the longest row tile of a head visits, what one visits on average
  int blocks;    // that share the tiles
};

// Of a problem that is supported, on a GPU of so many SMs.
Choice choose(const core::Problem& problem, int sms);

// The estimate, in rows (estimate.hpp).
double estimate(const Choice& choice, int sms);

}  // namespace tessera::cuda::sm90_f32
