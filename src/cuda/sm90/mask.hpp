// What happens to a tile of scores between Q K and the softmax: hidden keys become -inf; with kGeneral the
// options of the interface are applied as well (softcap, ALiBi, mask tensors).
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::sm90 {

// first_row: of the warpgroup. The thread's rows and their band are worked out anew each time: there is no
// register to keep them in through the tiles that need no masking.
template <Config C, class T, bool kGeneral>
__device__ inline void mask_scores(Scores<C>& s, const Params& p, const Place& at, int first_row, int tile) {
  const tile::Sequence sequence{p, at.batch};
  const tile::Band band = sequence.band();
  const int lane = ptx::thread_x() % 32, key0 = tile * C.keys + 2 * (lane % 4);
  const int row = first_row + ptx::thread_x() % 128 / 32 * C.warp_rows + lane / 4;
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) {
    const int query = min(row + 8 * r, sequence.queries() - 1);
    const auto score = [&](int n, int e) -> float& { return s[4 * n + 2 * r + e]; };
    if constexpr (kGeneral) {
      const tile::BlockView<T> view = tile::block_view<T>(p, at.batch, at.head);
      tile::apply_options<C.keys>(p, band, tile::score_row(p, view, {query, at.head}), key0, score);
    } else {
      const int position = query + band.offset;
      tile::hide_by_position<C.keys>(position - band.left - key0,
                                     min(position + band.right + 1, band.keys) - key0, score);
    }
  }
}

}  // namespace tessera::cuda::sm90
