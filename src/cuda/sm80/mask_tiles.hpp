// Which key tiles a block visits. With a mask tensor that was looked at beforehand (mask/pass.hpp), those of
// which some of its rows see something; else all.
#pragma once

#include "cuda/mask/params.hpp"
#include "cuda/sm80/config.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::sm80 {

// Of a block whose rows are queries first ... last of one head, or of several that share the mask.
struct MaskRows {
  const MaskTiles& tiles;
  long long row;  // of granules: that of query 0
  int first, last;

  template <class T>
  __device__ MaskRows(const Params& p, const tile::BlockView<T>& view, int first_query, int last_query)
      : tiles(p.mask_tiles),
        row(static_cast<long long>(tiles.batch_stride) * view.batch +
            static_cast<long long>(tiles.head_stride) * view.first_head),
        first(tiles.row_stride == 0 ? 0 : first_query / mask::kGranuleRows),
        last(tiles.row_stride == 0 ? 0 : last_query / mask::kGranuleRows) {}

  // What the mask is to all of them at once.
  __device__ tile::MaskState at(int key) const {
    if (tiles.states == nullptr) return tile::MaskState::mixed;
    unsigned any = 0, all = ~0u;
    for (int g = first; g <= last; ++g) {
      const unsigned state = tiles.states[(row + g) * tiles.tiles + key / mask::kGranuleKeys];
      any |= state;
      all &= state == static_cast<unsigned>(tile::MaskState::open) ? ~0u : 0u;
    }
    return any == 0 ? tile::MaskState::hidden : all != 0 ? tile::MaskState::open : tile::MaskState::mixed;
  }
};

// Key tiles in ascending order: [0] is at work, the next two are asked for.
template <Config C, bool kMask>
struct TileList {
  static_assert(!kMask || mask::kGranuleKeys % C.tile_keys() == 0);
  int tile[3] = {0, 1, 2};

  __device__ int operator[](int ahead) const { return tile[ahead]; }
  // The first from `t` on that is visited; those past the end stand for none.
  __device__ static int seen_from(int t, const MaskRows& rows, int first_key, int length) {
    while (t * C.tile_keys() < length && rows.at(first_key + t * C.tile_keys()) == tile::MaskState::hidden)
      ++t;
    return t;
  }
  __device__ void start(const MaskRows& rows, int first_key, int length) {
    if constexpr (kMask) {
      tile[0] = seen_from(0, rows, first_key, length);
      tile[1] = seen_from(tile[0] + 1, rows, first_key, length);
      tile[2] = seen_from(tile[1] + 1, rows, first_key, length);
    }
  }
  __device__ void advance(const MaskRows& rows, int first_key, int length) {
    tile[0] = tile[1];
    tile[1] = tile[2];
    tile[2] = kMask ? seen_from(tile[2] + 1, rows, first_key, length) : tile[2] + 1;
  }
};

}  // namespace tessera::cuda::sm80
