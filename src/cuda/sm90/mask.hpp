// What happens to a tile of scores between Q K and the softmax: see tile/score.hpp.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/fragments.hpp"
#include "cuda/sm90/schedule.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::sm90 {

// first_row: of the warpgroup. The thread's rows and their band are worked out anew each time: there is no
// register to keep them in through the tiles that need no masking.
template <auto C, class T, class Policy>
__device__ inline void mask_scores(Scores<C>& s, const Params& p, const TileIndex& at, int first_row,
                                   int tile) {
  const tile::Sequence sequence{p, at.batch};
  const tile::Band band = sequence.band();
  const int lane = ptx::thread_x() % 32, key0 = tile * C.keys + 2 * (lane % 4);
  const int row = first_row + ptx::thread_x() % 128 / 32 * C.warp_rows() + lane / 4;
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) {
    const int query = min(row + 8 * r, sequence.queries() - 1);
    if constexpr (Policy::kEveryTile) {
      const tile::BlockView<T> view = tile::block_view<T>(p, at.batch, at.head);
      Policy(p, view, {query, at.head}).apply(p, band, key0, s, r);
    } else {
      const int position = query + band.offset;
      Policy::hide(s, r, position - band.left - key0, min(position + band.right + 1, band.keys) - key0);
    }
  }
}

}  // namespace tessera::cuda::sm90
