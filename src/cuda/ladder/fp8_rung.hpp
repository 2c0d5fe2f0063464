// Rung 12 as the host sees it. No CUDA headers.
#pragma once

#include "cuda/ladder/table.hpp"
#include "cuda/sm89/configs.hpp"

namespace tessera::cuda::ladder {

// The first arch whose tensor cores take 8-bit floats.
inline constexpr int kFp8Arch = 89;

// 64 rows a block, 16 a warp, within 128 registers. Blocks of scales are as long as a tile, or a multiple.
TESSERA_CONSTEXPR sm89::Config fp8_config(int dim) { return {.dim = dim, .keys = dim == 64 ? 64 : 16}; }

// Of e4m3 or e5m2 codes. Its function is null where the build has no code for archs from kFp8Arch on.
Rung fp8(Element codes, int dim);

}  // namespace tessera::cuda::ladder
