// Tile sizes of the f32 kernels for wgmma, chosen by the same function on the host and on the device, and the
// config rows. docs/f32.md says what bounds them.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::sm90_f32 {

enum class Variant {
  plain,    // band, key lengths and sinks only
  general,  // every option
};
inline constexpr int kVariants = 2;

struct Config {
  int dim, value_dim;  // multiples of 64
  int consumers;       // warpgroups, 64 query rows each
  int keys;            // of a K/V tile
  int stages;          // K and V tiles in shared memory at a time
  int held;            // parts of Q that a consumer holds in registers
  int shelved = 0;     // 1: the last block of O's columns is in shared memory, for want of registers

  TESSERA_CONSTEXPR int rows() const { return 64 * consumers; }
  TESSERA_CONSTEXPR int threads() const { return 128 * (consumers + 1); }
  // Blocks of 64 columns, in rows of 128 bytes.
  TESSERA_CONSTEXPR int blocks() const { return dim / 64; }
  TESSERA_CONSTEXPR int value_blocks() const { return value_dim / 64; }
  // One of the three parts (tile/parts.hpp) of a warpgroup's query rows, of a tile of K, of V.
  TESSERA_CONSTEXPR int query_part() const { return blocks() * 64 * 128; }
  TESSERA_CONSTEXPR int key_part() const { return blocks() * keys * 128; }
  TESSERA_CONSTEXPR int value_part() const { return value_blocks() * keys * 128; }
  // What Shared<C> takes: tiles, which are whole multiples of 1024 bytes, then the barriers in one more.
  TESSERA_CONSTEXPR int shared_bytes() const {
    return 3 * (consumers * query_part() + stages * (key_part() + value_part())) + shelved * 64 * 64 * 4 +
           1024;
  }
  // The register file holds 64 K registers; a block is alone on its SM. Three warpgroups start with 168 each;
  // two have as many as a thread can have.
  TESSERA_CONSTEXPR bool moves_registers() const { return consumers == 2; }
  TESSERA_CONSTEXPR int producer_registers() const { return dim == 64 ? 104 : 88; }
  TESSERA_CONSTEXPR int consumer_registers() const { return dim == 64 ? 200 : 208; }
};

inline constexpr HeadDims kHeadDims[] = {{64, 64}, {128, 128}, {256, 256}};

TESSERA_CONSTEXPR Config config_for(int dim, int value_dim, Variant variant) {
  if (dim > 128)
    return {.dim = dim,
            .value_dim = value_dim,
            .consumers = 1,
            .keys = 32,
            .stages = 1,
            .held = 0,
            .shelved = variant == Variant::general ? 1 : 0};
  return {.dim = dim,
          .value_dim = value_dim,
          .consumers = 2,
          .keys = 64,
          .stages = dim == 64 ? 2 : 1,
          .held = dim == 64 ? 3 : 1};
}

}  // namespace tessera::cuda::sm90_f32
