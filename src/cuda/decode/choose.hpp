// The decode kernels' row of the table: few rows over many keys.
#pragma once

#include "core/kernel.hpp"
#include "cuda/decode/configs.hpp"

namespace tessera::cuda::decode {

core::Kernel production_row();

// For tests: what a problem gets on a GPU of this arch.
struct Choice {
  HeadDims dims;
  Config config;
  std::int64_t row_tiles;  // of a K/V head
};
Choice choice_for(const core::Problem& problem, int code_arch);

}  // namespace tessera::cuda::decode
