// Rungs 1 and 8 to 11 as the host sees them. No CUDA headers.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/sm80/config.hpp"

namespace tessera::cuda::ladder {

// Rung 1. A block has 32 rows, or fewer where two rows of floats per thread would not fit.
const void* scalar_function(Element element);
inline constexpr int kScalarRows = 32;
TESSERA_CONSTEXPR int scalar_shared_bytes(int dim, int value_dim, int rows) {
  return (dim + value_dim) * rows * 4;
}

// Rungs 8 to 11: 64 rows a block, 16 a warp, within 128 registers and 64 KB.
TESSERA_CONSTEXPR sm80::Config registers_config(int dim) {
  return {.dim = dim, .value_dim = dim, .keys = dim == 64 ? 32 : 16, .min_blocks = 4};
}
TESSERA_CONSTEXPR sm80::Config pipelined_config(int dim) {
  return {.dim = dim, .value_dim = dim, .keys = dim == 64 ? 32 : 16, .stages = 3, .min_blocks = 4};
}

const void* registers_function(Element element, int dim);
const void* pipelined_function(Element element, int dim);   // rung 10 launches this one with an L2 window
const void* persistent_function(Element element, int dim);  // registers_config

}  // namespace tessera::cuda::ladder
