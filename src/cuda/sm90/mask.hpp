// What happens to a tile of scores between Q K and the softmax: hidden keys become -inf; with kGeneral the
// options of the interface are applied as well (softcap, ALiBi, mask tensors).
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::sm90 {

// Row r (0 or 1) of the thread sees keys low ... high - 1, counted from the thread's first key.
template <Config C>
__device__ inline void hide_by_position(Scores<C>& s, int r, int low, int high) {
#pragma unroll
  for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int key = 8 * n + e;
      if (key < low || key >= high) s[4 * n + 2 * r + e] = tile::minus_infinity();
    }
}

// first_row: of the warpgroup. The thread's rows and their band are worked out anew each time: there is no
// register to keep them in through the tiles that need no masking.
template <Config C, class T, bool kGeneral>
__device__ inline void mask_scores(Scores<C>& s, const Params& p, const Place& at, int first_row, int tile) {
  const tile::Band band = tile::band_of(p, at.batch);
  const int lane = ptx::thread_x() % 32, key0 = tile * C.keys + 2 * (lane % 4);
  const int row = first_row + ptx::thread_x() % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = min(row + 8 * r, p.queries - 1);
    if constexpr (kGeneral) {
      const tile::BlockView<T> view = tile::block_view<T>(p, at.batch, at.head);
      const tile::ScoreRow options = tile::score_row(p, view, {query, at.head});
#pragma unroll
      for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * n + 2 * r + e];
          x = tile::general_score(p, band, options, key0 + 8 * n + e, x);
        }
    } else {
      const int position = query + band.offset;
      hide_by_position<C>(s, r, position - band.left - key0,
                          min(position + band.right + 1, band.keys) - key0);
    }
  }
}

}  // namespace tessera::cuda::sm90
