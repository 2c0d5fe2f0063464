// Sizes of the mma.sync kernels for 8-bit inputs, for the host and the device alike.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::sm89 {

enum class Variant {
  plain,    // scores are only scaled and hidden by position; one scale of V for a head, or for a channel
  blocks,   // the same where V has a scale for each block of keys
  general,  // every option
};
inline constexpr int kVariants = 3;

// Head dims of query, key and value; others are padded with zeros to the next.
inline constexpr int kDims[] = {64, 128, 256};
inline constexpr int kMostDim = kDims[sizeof kDims / sizeof *kDims - 1];

struct Config {
  int dim;
  int keys;        // at a time; blocks of scales are as large or a multiple
  int warps = 4;   // of 16 query rows each
  int stages = 2;  // K and V tiles in flight

  TESSERA_CONSTEXPR int rows() const { return 16 * warps; }
  TESSERA_CONSTEXPR int threads() const { return 32 * warps; }
  TESSERA_CONSTEXPR int query_bytes() const { return rows() * dim; }
  TESSERA_CONSTEXPR int tile_bytes() const { return keys * dim; }  // of K or V
  TESSERA_CONSTEXPR int keys_at() const { return query_bytes(); }
  TESSERA_CONSTEXPR int values_at() const { return keys_at() + stages * tile_bytes(); }
  TESSERA_CONSTEXPR int shared_bytes() const { return values_at() + stages * tile_bytes(); }
  TESSERA_CONSTEXPR int min_blocks() const { return dim > 128 ? 1 : 2; }
};

// 256 output columns leave no registers for the scores of 64 keys.
TESSERA_CONSTEXPR Config config_for(int dim) { return {.dim = dim, .keys = dim > 128 ? 32 : 64}; }

}  // namespace tessera::cuda::sm89
