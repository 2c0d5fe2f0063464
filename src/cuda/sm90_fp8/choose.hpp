// The row of the table for 8-bit inputs on Hopper's tensor cores.
#pragma once

#include <cstdint>

#include "core/kernel.hpp"
#include "cuda/sm90_fp8/configs.hpp"

namespace tessera::cuda::sm90_fp8 {

core::Kernel production_row();

// Keys of V are contiguous; and V with its columns as rows.
bool is_transposed(const core::Problem& problem);
core::Tensor4 transposed(const core::Problem& problem);

// How a problem is cut up; see sm90/schedule.hpp.
struct Choice {
  Variant variant;
  sm90::Config config;
  std::int64_t row_tiles;  // of a head
  std::int64_t total;      // of all heads and batch entries
  bool unequal;            // later tiles of a head are more work
  int blocks;              // that share the tiles
};

// Of a problem that is supported, on a GPU of so many SMs.
Choice choose(const core::Problem& problem, int sms);

}  // namespace tessera::cuda::sm90_fp8
