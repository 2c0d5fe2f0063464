// The config rows: which tile sizes a head dim gets on which arch. Measured on an H200 (docs/sm80.md); the
// rows of sm_80 and sm_89 follow from their shared memory (163 and 99 KB a block) and the compiler's report.
#pragma once

#include "cuda/sm80/config.hpp"

namespace tessera::cuda::sm80 {

enum class Variant {
  plain,    // many rows; band and key lengths only; 16-byte rows
  small,    // the same for problems with too few rows to fill the GPU: key splits inside a block
  general,  // every option, any alignment
};

// Head dims that have kernels of their own; others are padded with zeros to the next.
struct HeadDims {
  int dim, value_dim;
};
inline constexpr HeadDims kHeadDims[] = {{32, 32},   {64, 64},   {96, 96},  {128, 128},
                                         {192, 128}, {192, 192}, {256, 256}};
TESSERA_CONSTEXPR bool has_small(int dim) { return dim == 64 || dim == 128; }

// Which of the archs compiled for a GPU runs: its own, an older one of its generation, or PTX of the oldest.
TESSERA_CONSTEXPR int code_arch_of(int gpu_arch) {
  return gpu_arch == 90 ? 90 : gpu_arch / 10 == 8 && gpu_arch >= 89 ? 89 : 80;
}

// Code for this arch waits by itself for the kernels before it in the stream: see ptx/dependent_launch.hpp.
TESSERA_CONSTEXPR bool starts_early(int arch) { return arch >= 90; }

TESSERA_CONSTEXPR Config config_for(int arch, int dim, int value_dim, Variant variant) {
  const bool large = arch >= 90;  // 227 KB of shared memory; what runs sm_80's or sm_89's code may have 99
  Config c{dim, value_dim, 4, 2, 1, 32, 2, false, false, 2};
  if (variant == Variant::small) {
    // 64 rows, every key tile shared by two groups of warps.
    c.row_tiles = 1;
    c.key_splits = 2;
    c.lazy = dim == 128 && large;
    c.keys = dim == 64 || large ? 64 : 32;
    c.overlap = !c.lazy;
    c.query_in_registers = dim == 64;
    c.min_blocks = 1;
  } else if (variant == Variant::general || dim > 128) {
    // 16 rows a warp: options need registers, and so do 192 and 256 output columns.
    c.row_tiles = 1;
    c.min_blocks = dim > 128 ? 1 : 2;
    if (large && variant == Variant::plain) {
      c.row_warps = 8;
      c.keys = 64;
    }
  } else if (dim <= 64) {
    // Two blocks with 64 keys each would be 32 bytes too many for 100 KB.
    c.keys = large ? 64 : 32;
    c.lazy = large;
    c.overlap = !large;
    c.query_in_registers = true;
  } else if (dim == 128) {
    c.keys = large ? 64 : 32;
    c.lazy = large;
  }
  return c;
}

}  // namespace tessera::cuda::sm80
