// The config rows: sm80's tiles, of elements of three bf16 parts. The query tile and one tile each of K and V
// are in shared memory, so what runs sm_80's code has tiles that fit 99 KB.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/sm80/configs.hpp"

namespace tessera::cuda::sm80_f32 {

using sm80::code_arch_of;
using sm80::Config;
using sm80::pdl;

enum class Variant {
  many,  // rows enough for every warp
  few,   // 16 rows: warps share the keys of a tile
};
inline constexpr int kVariants = 2;

inline constexpr int kHeadDims[] = {64, 128, 256};
TESSERA_CONSTEXPR bool has_few(int dim) { return dim <= 128; }

TESSERA_CONSTEXPR Config config_for(int arch, int dim, Variant variant) {
  const bool large = arch >= 90;  // 227 KB of shared memory
  Config c = {.dim = dim, .value_dim = dim, .stages = 1, .min_blocks = 1, .element_bytes = 6};
  if (variant == Variant::few) {
    c.row_warps = 1;
    c.key_splits = large ? 8 : dim == 64 ? 4 : 2;
    c.keys = 16;
  } else if (dim == 64) {
    c.row_warps = 8;
    c.keys = 64;
  } else if (dim == 128) {
    c.row_warps = large ? 8 : 4;
    c.keys = 32;
  } else {
    c.row_warps = large ? 4 : 2;
    c.key_splits = large ? 2 : 1;
    c.keys = 16;
  }
  return c;
}

}  // namespace tessera::cuda::sm80_f32
