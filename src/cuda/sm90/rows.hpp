// The config rows: which tile sizes a head dim gets. docs/sm90.md says what bounds them.
#pragma once

#include "cuda/sm90/config.hpp"

namespace tessera::cuda::sm90 {

enum class Variant {
  plain,    // 128 rows a block; band, key lengths and sinks only
  tall,     // the same with 256 rows, half as many keys at a time, for problems with rows enough
  split,    // 64 rows a block, keys shared by its warpgroups: for problems with few rows (split.hpp)
  narrow,   // the same with 32 rows, for problems with fewer still
  general,  // every option, 128 rows a block
};
TESSERA_CONSTEXPR bool splits_keys(Variant v) { return v == Variant::split || v == Variant::narrow; }

// Head dims that have kernels of their own; for others the copy engine adds columns of zeros.
struct HeadDims {
  int dim, value_dim;
};
inline constexpr HeadDims kHeadDims[] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};
TESSERA_CONSTEXPR bool has_tall(int dim) { return dim == 64; }
TESSERA_CONSTEXPR bool has_split(int dim) { return dim == 64 || dim == 128; }

// K and V of a row tile must be in shared memory twice over (one being read, one on its way), Q once. A
// thread has registers for half its row of S and of O, and for the weights: two sets of them with `overlap`,
// which pays where a warpgroup's products are not much longer than its softmax (docs/sm90.md).
TESSERA_CONSTEXPR Config config_for(int dim, int value_dim, Variant variant) {
  Config c{dim, value_dim, 2, 128, 2, true, true};
  if (dim == 64) {
    c.overlap = false;
    if (variant == Variant::tall) c = {dim, value_dim, 4, 64, 8, false, false, true};
  } else if (dim > 128) {
    c.overlap = value_dim <= 128;
    c.ahead = !c.overlap;
    c.keys = dim == 256 ? 80 : 96;
  }
  if (splits_keys(variant) && dim == 128) c.keys = 64;
  if (variant == Variant::narrow) c.warp_rows = 8;
  if (variant == Variant::general) {  // what the options need of each row takes registers too
    c.keys = 64;
    c.overlap = value_dim <= 128;  // past that, with two sets of weights, they do not fit
    c.ahead = false;
  }
  return c;
}

// What Shared<C> takes: tiles, which are whole multiples of 1024 bytes, then the barriers in one more. Here
// for those who compile for the host alone.
TESSERA_CONSTEXPR int shared_bytes(const Config& c) {
  return c.consumers * c.query_bytes() + c.stages * (c.key_bytes() + c.value_bytes()) + 1024;
}
// The same of SplitShared<C>: Q, the tiles, the partial results, then reference and sum of every row and the
// barriers.
TESSERA_CONSTEXPR int split_shared_bytes(const Config& c) {
  const int tiles = c.consumers * c.stages * (c.key_bytes() + c.value_bytes());
  const int partial = c.consumers * c.split_rows() * c.value_dim * 4;
  return c.query_bytes() + tiles + partial + c.consumers * 2048 + 1024;
}
inline constexpr int kMostSharedBytes = 227 * 1024;

}  // namespace tessera::cuda::sm90
