// Which keys the rows of a block see: worked out once and kept in shared memory, where it costs no registers;
// and what that does to a tile's scores.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm80/mainloop.hpp"
#include "cuda/tile/options.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::sm80 {

template <Config C>
__device__ inline int first_tile_key(const tile::KeyRange& range) {
  return range.begin / C.tile_keys() * C.tile_keys();
}

template <Config C, class T>
__device__ inline void write_visible(unsigned shared, const tile::BlockView<T>& view,
                                     const tile::KeyRange& range, int first_row) {
  const int first_key = first_tile_key<C>(range);
  for (int row = static_cast<int>(threadIdx.x); row < C.rows(); row += C.threads()) {
    const int position = view.query_of(min(first_row + row, view.rows - 1)) + view.band.offset;
    ptx::store_shared_8(shared + C.visible_offset() + row * 8, position - view.band.left,
                        min(position + view.band.right + 1, view.band.keys));
  }
  if (threadIdx.x == 0) {
    ptx::store_shared_8(shared + C.unmasked_offset(),
                        (range.full_begin - first_key + C.tile_keys() - 1) / C.tile_keys(),
                        (range.full_end - first_key) / C.tile_keys());
    ptx::store_shared_8(shared + C.first_key_offset(), first_key, 0);
  }
}

// `unmasked`: the first tile that all rows see all of, and the first behind it of which they do not.
__device__ inline bool partly_visible(int t, int2 unmasked) { return t < unmasked.x || t >= unmasked.y; }

// The first of the keys that a thread holds of tile t, and its first row, within the block's.
template <Config C>
__device__ inline int first_key_of(unsigned shared, int thread, int t) {
  const int first_key = ptx::load_shared_8(shared + C.first_key_offset()).x;
  return first_key + t * C.tile_keys() + thread / 32 / C.row_warps * C.keys + thread_key(thread);
}
template <Config C>
__device__ inline int row_of(int thread, int r) {
  return thread / 32 % C.row_warps * C.row_tiles * 16 + thread_row(thread, r / 2, r % 2);
}

// Tile t's scores, for policies that hide by position alone (tile/score.hpp).
template <Config C, class Policy>
__device__ inline void hide_scores(Scores<C>& s, unsigned shared, int t) {
  const int thread = ptx::thread_x(), key0 = first_key_of<C>(shared, thread, t);
#pragma unroll
  for (int r = 0; r < 2 * C.row_tiles; ++r) {
    const int2 visible = ptx::load_shared_8(shared + C.visible_offset() + row_of<C>(thread, r) * 8);
    Policy::hide(s[r / 2], r % 2, visible.x - key0, visible.y - key0);
  }
}

// For any policy.
template <Config C, class Policy, class T>
__device__ inline void mask_scores(Scores<C>& s, const Params& p, const tile::BlockView<T>& view,
                                   unsigned shared, int first_row, int t) {
  if constexpr (Policy::kEveryTile) {
    const int thread = ptx::thread_x(), key0 = first_key_of<C>(shared, thread, t);
#pragma unroll
    for (int m = 0; m < C.row_tiles; ++m) tile::change_all<sizeof(T) == 4>(s[m], p);
#pragma unroll
    for (int r = 0; r < 2 * C.row_tiles; ++r) {
      const tile::RowIndex at = view.index(min(first_row + row_of<C>(thread, r), view.rows - 1));
      tile::change_row(s[r / 2], r % 2, p, Policy(p, view, at), view.band, key0);
    }
  } else {
    hide_scores<C, Policy>(s, shared, t);
  }
}

}  // namespace tessera::cuda::sm80
