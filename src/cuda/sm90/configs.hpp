// The config rows: which tile sizes a head dim gets. docs/sm90.md says what bounds them.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/sm90/config.hpp"

namespace tessera::cuda::sm90 {

enum class Variant {
  plain,    // 128 rows a block; band, key lengths and sinks only
  tall,     // the same with 256 rows, fewer keys at a time, for problems with rows enough
  twin,     // two row tiles of 128 rows at once, for row tiles that visit few keys
  split,    // 64 rows a block, keys shared by its warpgroups: for problems with few rows (split.hpp)
  narrow,   // the same with 32 rows, for problems with fewer still
  alibi,    // 128 rows, and nothing but ALiBi changes scores
  softcap,  // the same with softcap alone
  general,  // every option, 128 rows a block
  entries,  // ragged and paged batches: as plain, or tall at head dim 64
};
inline constexpr int kVariants = 9;
TESSERA_CONSTEXPR bool takes_options(Variant v) { return v >= Variant::alibi && v <= Variant::general; }
TESSERA_CONSTEXPR bool splits_keys(Variant v) { return v == Variant::split || v == Variant::narrow; }

inline constexpr HeadDims kHeadDims[] = {{64, 64},   {80, 80},   {96, 96},  {128, 128},
                                         {192, 128}, {192, 192}, {256, 256}};
TESSERA_CONSTEXPR bool has_tall(int dim) { return dim == 64 || dim == 80; }
TESSERA_CONSTEXPR bool has_twin(int dim) { return dim == 64; }
TESSERA_CONSTEXPR bool has_options(int dim) { return dim != 80; }  // 96 takes them
TESSERA_CONSTEXPR bool has_split(int dim) { return dim == 64 || dim == 128; }

// K and V of a row tile must be in shared memory twice over (one being read, one on its way), Q once. A
// thread has registers for half its row of S and of O, and for P: two sets of it with `overlap`, which pays
// where a warpgroup's products are not much longer than its softmax (docs/sm90.md).
TESSERA_CONSTEXPR Config config_for(int dim, int value_dim, Variant variant) {
  // Where scores are changed one by one, more warps that work side by side are worth more than longer tiles
  // and overlap: they hide each other's waiting. A mask tensor's part of a key tile takes shared memory, too.
  const bool changes = variant == Variant::softcap || variant == Variant::general;
  const bool mask = variant == Variant::general;
  const int mask_bytes = !mask ? 0 : dim == 64 ? 128 * 1024 : value_dim > 128 ? 32 * 1024 : 64 * 1024;
  if (variant == Variant::twin)
    return {.dim = dim,
            .value_dim = value_dim,
            .keys = 64,
            .stages = 4,
            .ping_pong = false,
            .overlap = false,
            .teams = 2};
  const bool entries = variant == Variant::entries;
  if (variant == Variant::tall || (dim == 64 && (takes_options(variant) || entries)))
    return {.dim = dim,
            .value_dim = value_dim,
            .consumers = 4,
            .keys = dim == 80 ? 48 : 64,
            .stages = mask ? 4 : 8,
            .ping_pong = false,
            .overlap = false,
            .ahead = dim == 64,
            .strips = dim == 80,
            .mask_bytes = mask_bytes,
            .entries = entries};
  if (changes)
    return {.dim = dim,
            .value_dim = value_dim,
            .consumers = value_dim > 128 ? 2 : 3,
            .keys = 64,
            .stages = dim > 128 ? 2 : 3,
            .ping_pong = value_dim > 128,
            .overlap = false,
            .mask_bytes = mask_bytes};
  if (dim > 128)
    return {.dim = dim,
            .value_dim = value_dim,
            .keys = dim == 256 ? 80 : 96,
            .overlap = value_dim <= 128,
            .ahead = value_dim > 128,
            .entries = entries};
  return {.dim = dim,
          .value_dim = value_dim,
          .stages = dim == 80 ? 3 : 2,
          .overlap = dim != 64,
          .strips = dim == 80,
          .entries = entries};
}
// Of a ragged, paged or dense batch whose K and V are of 8 bits, by the kernels that widen them: as its
// neighbours of 16 bits, as far as codes leave room.
inline constexpr HeadDims kWidenedHeadDims[] = {{64, 64}, {128, 128}, {256, 256}};
TESSERA_CONSTEXPR Config widened_config_for(int dim, Codes codes) {
  if (dim == 64)
    return {.dim = dim,
            .value_dim = dim,
            .consumers = 3,
            .keys = 64,
            .stages = 8,
            .ping_pong = false,
            .overlap = false,
            .ahead = true,
            .entries = true,
            .codes = codes,
            .staged = 2};
  // Who widens takes registers, too: there are none left for two sets of P.
  return {.dim = dim,
          .value_dim = dim,
          .keys = dim == 256 ? 64 : 128,
          .overlap = false,
          .ahead = true,
          .entries = true,
          .codes = codes,
          .staged = dim == 256 ? 1 : 2};
}
TESSERA_CONSTEXPR SplitConfig split_config_for(int dim, int value_dim, Variant variant) {
  return {.dim = dim,
          .value_dim = value_dim,
          .keys = dim == 128 ? 64 : 128,
          .rows_of_warp = variant == Variant::narrow ? 8 : 16};
}

// What the host has to know of a variant's config, of either kind.
struct Tiling {
  int dim, value_dim;
  int rows, keys;  // of a row tile, of a key tile
  int warpgroups;  // that multiply
  int teams;       // of them, each with a row tile of its own
  int query_rows;  // of a box of Q: those of a warpgroup, or of a warp if it has fewer than 16
  int threads, shared_bytes;
  bool passes_over, strips;
  int mask_bytes;
};
TESSERA_CONSTEXPR Tiling tiling_of(const Config& c) {
  return {.dim = c.dim,
          .value_dim = c.value_dim,
          .rows = c.rows(),
          .keys = c.keys,
          .warpgroups = c.warpgroups(),
          .teams = c.teams,
          .query_rows = 64,
          .threads = c.threads(),
          .shared_bytes = c.shared_bytes(),
          .passes_over = c.passes_over(),
          .strips = c.strips,
          .mask_bytes = c.mask_bytes};
}
TESSERA_CONSTEXPR Tiling tiling_for(int dim, int value_dim, Variant variant) {
  if (splits_keys(variant)) {
    const SplitConfig c = split_config_for(dim, value_dim, variant);
    return {.dim = dim,
            .value_dim = value_dim,
            .rows = c.rows(),
            .keys = c.keys,
            .warpgroups = c.warpgroups,
            .teams = 1,
            .query_rows = c.warp_rows() == 16 ? 64 : c.warp_rows(),
            .threads = c.threads(),
            .shared_bytes = c.shared_bytes(),
            .passes_over = false,
            .strips = false,
            .mask_bytes = 0};
  }
  return tiling_of(config_for(dim, value_dim, variant));
}

}  // namespace tessera::cuda::sm90
