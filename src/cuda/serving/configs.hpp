// Tile sizes of the serving kernels: a row for each head dim, number of packed rows and arch.
//
// Warps share a tile of keys in one of two ways (row_warps, key_splits):
//
//   few    each warp multiplies 16 keys with all rows, and P of all keys with its own part of V's columns: no
//          element of K and V is read from shared memory twice, and all that warps tell each other is P and
//          a row's maxima and sums
//   more   each warp has 16 rows of its own, and all keys and columns; on Hopper the four warps multiply
//          together, by wgmma: with 64 rows mma.sync would take as long as reading K and V does
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/serving/pieces.hpp"
#include "cuda/sm80/config.hpp"
#include "cuda/tile/swizzle.hpp"

namespace tessera::cuda::serving {

enum class Variant {
  few,   // up to 16 packed rows: tokens times the heads that share K and V
  more,  // up to 64
};
inline constexpr int kVariants = 2;

inline constexpr HeadDims kHeadDims[] = {{64, 64}, {128, 128}, {192, 128}, {256, 256}};

// Not all have registers for it; nor shared memory.
enum class SumIn { registers, shared, workspace };

struct Config {
  sm80::Config tile;
  SumIn sum_in;  // O of a sequence's pieces so far
  bool wgmma;

  TESSERA_CONSTEXPR int rows() const { return tile.rows(); }
  TESSERA_CONSTEXPR int keys() const { return tile.tile_keys(); }
  // Where a chunk of 16 bytes of a tile of so many rows lies: as ldmatrix likes it, or wgmma.
  template <int kDim, int kRows>
  TESSERA_CONSTEXPR int chunk_offset(int row, int chunk) const {
    return wgmma ? chunk / 8 * (kRows * 128) + row * 128 + ((chunk % 8) ^ (row % 8)) * 16
                 : tile::chunk_offset<kDim>(row, chunk);
  }
  TESSERA_CONSTEXPR int columns() const { return tile.value_dim / tile.key_splits; }  // of V, a warp
  TESSERA_CONSTEXPR bool shares_rows() const { return tile.key_splits > 1; }
  TESSERA_CONSTEXPR int probs_offset() const { return tile.query_bytes() + tile.ring_bytes(); }
  TESSERA_CONSTEXPR int probs_bytes() const {
    return shares_rows() ? rows() * kTileKeys * tile.element_bytes : 0;
  }
  TESSERA_CONSTEXPR int sum_offset() const { return probs_offset() + probs_bytes(); }
  TESSERA_CONSTEXPR int sum_bytes() const {
    return sum_in == SumIn::shared ? rows() * tile.value_dim * 4 : 0;
  }
  // A float for each warp and row: maxima, then sums. Behind them, what the search for the block's first
  // piece leaves.
  TESSERA_CONSTEXPR int stats_offset() const { return sum_offset() + sum_bytes(); }
  TESSERA_CONSTEXPR int search_offset() const { return stats_offset() + tile.key_splits * rows() * 4; }
  // Where a tile's rows are, if K and V are in pages: for every slot of the ring.
  TESSERA_CONSTEXPR int paged_offset() const { return (search_offset() + 64 + 15) / 16 * 16; }
  TESSERA_CONSTEXPR int paged_bytes() const { return keys() * 16; }
  TESSERA_CONSTEXPR int shared_bytes() const { return paged_offset() + tile.stages * paged_bytes(); }
};

// Past head dim 192 there are registers for 16 rows alone.
TESSERA_CONSTEXPR bool has_more(int dim) { return dim <= 192; }

TESSERA_CONSTEXPR Config config_for(int arch, int dim, int value_dim, Variant variant) {
  const bool large = arch >= 90;  // 227 KB of shared memory; what runs sm_80's or sm_89's code may have 99
  const bool few = variant == Variant::few, wide = !has_more(dim);
  Config c{};
  c.tile = {.dim = dim,
            .value_dim = value_dim,
            .row_warps = few ? 1 : 4,
            .row_tiles = 1,
            .key_splits = !few             ? 1
                          : wide && !large ? 2
                                           : 4,
            .keys = few     ? 16
                    : large ? 64
                            : 32,
            .stages = 2,
            .query_in_registers = few && dim <= 128,
            .min_blocks = large && !wide ? 2 : 1};
  c.wgmma = large && !few;
  c.sum_in = c.wgmma ? SumIn::workspace : few && !wide ? SumIn::registers : SumIn::shared;
  // As many tiles in flight as there is room for.
  const int room = (large ? (wide ? 227 : 113) : 99) * 1024 - c.shared_bytes();
  const int more = room / (c.keys() * (dim + value_dim) * 2 + c.paged_bytes());
  c.tile.stages += more < 0 ? 0 : more > 4 ? 4 : more;
  return c;
}

}  // namespace tessera::cuda::serving
