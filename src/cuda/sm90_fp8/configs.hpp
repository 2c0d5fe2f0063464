// The config rows: which tile sizes a head dim gets.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/sm90/config.hpp"

namespace tessera::cuda::sm90_fp8 {

enum class Variant {
  plain,    // band, key lengths and sinks only
  blocks,   // and scales of K by block
  changed,  // and softcap, ALiBi, scales of any sign
  general,  // and a mask tensor
};
inline constexpr int kVariants = 4;

inline constexpr HeadDims kHeadDims[] = {{64, 64}, {128, 128}, {256, 256}};

// As sm90's (sm90/configs.hpp), where K takes half the room.
TESSERA_CONSTEXPR sm90::Config config_for(int dim, int value_dim, sm90::Codes codes, Variant variant) {
  const bool mask = variant == Variant::general;
  if (dim == 64)
    return {.dim = dim,
            .value_dim = value_dim,
            .consumers = 4,
            .keys = 64,
            .stages = mask ? 4 : 8,
            .ping_pong = false,
            .overlap = false,
            .ahead = true,
            .mask_bytes = mask ? 128 * 1024 : 0,
            .codes = codes};
  if (mask || variant == Variant::changed)
    return {.dim = dim,
            .value_dim = value_dim,
            .consumers = dim == 256 ? 2 : 3,
            .keys = 64,
            .stages = dim == 256 ? 2 : 3,
            .ping_pong = dim == 256,
            .overlap = false,
            .mask_bytes = mask ? (dim == 256 ? 32 : 64) * 1024 : 0,
            .codes = codes};
  if (dim == 256)
    return {.dim = dim,
            .value_dim = value_dim,
            .keys = variant == Variant::blocks ? 64 : 96,
            .overlap = false,
            .ahead = true,
            .codes = codes};
  return {.dim = dim, .value_dim = value_dim, .stages = 3, .codes = codes};
}

}  // namespace tessera::cuda::sm90_fp8
