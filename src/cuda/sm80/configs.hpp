// The config rows: which tile sizes a head dim gets on which arch. Measured on an H200 (docs/sm80.md); the
// rows of sm_80 and sm_89 follow from their shared memory (163 and 99 KB a block) and the compiler's report.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/sm80/config.hpp"

namespace tessera::cuda::sm80 {

enum class Variant {
  plain,    // many rows; band and key lengths only; 16-byte rows
  small,    // the same for problems with too few rows to fill the GPU: key splits inside a block
  general,  // every option, any alignment
};
inline constexpr int kVariants = 3;

inline constexpr HeadDims kHeadDims[] = {{32, 32},   {64, 64},   {96, 96},   {128, 128},
                                         {192, 128}, {192, 192}, {256, 256}, {512, 256}};
// The last row is for every larger head dim: of more value columns than it has, a block computes a part.
inline constexpr HeadDims kLargest = kHeadDims[sizeof kHeadDims / sizeof *kHeadDims - 1];
inline constexpr int kMostParts = 2;
TESSERA_CONSTEXPR bool in_parts(int dim) { return dim == kLargest.dim; }  // and general alone
TESSERA_CONSTEXPR bool has_small(int dim) { return dim == 64 || dim == 128; }

// Which of the archs compiled for a GPU runs: its own, an older one of its generation, or PTX of the oldest.
TESSERA_CONSTEXPR int code_arch_of(int gpu_arch) {
  return gpu_arch == 90 ? 90 : gpu_arch / 10 == 8 && gpu_arch >= 89 ? 89 : 80;
}

// Code for this arch waits by itself for the kernels before it in the stream: see ptx/pdl.hpp.
TESSERA_CONSTEXPR bool pdl(int arch) { return arch >= 90; }

TESSERA_CONSTEXPR Config config_for(int arch, int dim, int value_dim, Variant variant) {
  const bool large = arch >= 90;  // 227 KB of shared memory; what runs sm_80's or sm_89's code may have 99
  // 64 rows, every key tile shared by two groups of warps.
  if (variant == Variant::small)
    return {.dim = dim,
            .value_dim = value_dim,
            .key_splits = 2,
            .keys = dim == 64 || large ? 64 : 32,
            .overlap = dim == 64 || !large,
            .query_in_registers = dim == 64,
            .min_blocks = 1,
            .lazy = dim == 128 && large};
  // 16 rows a warp: options need registers, and so do 192 and 256 output columns.
  if (in_parts(dim))
    return {.dim = dim,
            .value_dim = value_dim,
            .row_warps = large ? 8 : 3,
            .keys = large ? 32 : 16,
            .min_blocks = 1};
  if (variant == Variant::general)
    return {.dim = dim, .value_dim = value_dim, .min_blocks = dim > 128 ? 1 : 2};
  if (dim > 128)
    return {.dim = dim,
            .value_dim = value_dim,
            .row_warps = large ? 8 : 4,
            .keys = large ? 64 : 32,
            .min_blocks = 1};
  // Two blocks with 64 keys each would be 32 bytes too many for 100 KB.
  if (dim <= 64)
    return {.dim = dim,
            .value_dim = value_dim,
            .row_tiles = 2,
            .keys = large ? 64 : 32,
            .overlap = !large,
            .query_in_registers = true,
            .lazy = large};
  return {.dim = dim,
          .value_dim = value_dim,
          .row_tiles = 2,
          .keys = dim == 128 && large ? 64 : 32,
          .lazy = dim == 128 && large};
}

}  // namespace tessera::cuda::sm80
