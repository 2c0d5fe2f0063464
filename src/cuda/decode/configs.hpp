// Tile sizes of the decode kernels: a row for each head dim and arch. Up to 16 packed rows: tokens times the
// heads that share K and V. Each warp multiplies 16 keys with all rows, and P of all keys with its own part
// of V's columns: no element of K and V is read from shared memory twice, and all that warps tell each other
// is P and a row's maxima and sums.
#pragma once

#include "cuda/decode/pieces.hpp"
#include "cuda/dispatch.hpp"
#include "cuda/sm80/config.hpp"

namespace tessera::cuda::decode {

inline constexpr HeadDims kHeadDims[] = {{64, 64}, {128, 128}, {192, 128}, {256, 256}};

struct Config {
  sm80::Config tile;
  bool sum_in_shared;  // O of a sequence's pieces so far, for which not all have registers

  TESSERA_CONSTEXPR int rows() const { return tile.rows(); }
  TESSERA_CONSTEXPR int keys() const { return tile.tile_keys(); }
  TESSERA_CONSTEXPR int columns() const { return tile.value_dim / tile.key_splits; }  // of V, a warp
  TESSERA_CONSTEXPR int probs_offset() const { return tile.query_bytes() + tile.ring_bytes(); }
  TESSERA_CONSTEXPR int probs_bytes() const { return rows() * kTileKeys * tile.element_bytes; }
  TESSERA_CONSTEXPR int sum_offset() const { return probs_offset() + probs_bytes(); }
  TESSERA_CONSTEXPR int sum_bytes() const { return sum_in_shared ? rows() * tile.value_dim * 4 : 0; }
  // A float for each warp and row: maxima, then sums. Behind them, what the search for the block's first
  // piece leaves.
  TESSERA_CONSTEXPR int stats_offset() const { return sum_offset() + sum_bytes(); }
  TESSERA_CONSTEXPR int search_offset() const { return stats_offset() + tile.key_splits * rows() * 4; }
  TESSERA_CONSTEXPR int shared_bytes() const { return search_offset() + 64; }
};

inline constexpr int kMostRows = 16;

TESSERA_CONSTEXPR Config config_for(int arch, int dim, int value_dim) {
  const bool large = arch >= 90;  // 227 KB of shared memory; what runs sm_80's or sm_89's code may have 99
  const bool wide = dim > 192;
  Config c{};
  c.tile = {.dim = dim,
            .value_dim = value_dim,
            .row_warps = 1,
            .row_tiles = 1,
            .key_splits = wide && !large ? 2 : 4,
            .keys = 16,
            .stages = 2,
            .query_in_registers = dim <= 128,
            .min_blocks = large && !wide ? 2 : 1};
  c.sum_in_shared = wide;
  // As many tiles in flight as there is room for.
  const int room = (large ? (wide ? 227 : 113) : 99) * 1024 - c.shared_bytes();
  const int more = room / (c.keys() * (dim + value_dim) * 2);
  c.tile.stages += more < 0 ? 0 : more > 4 ? 4 : more;
  return c;
}

}  // namespace tessera::cuda::decode
