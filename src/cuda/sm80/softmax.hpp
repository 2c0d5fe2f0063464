// Scores to P, in one of two ways (C.lazy):
//
//   eager   exponents against the largest score so far, or up to kSlack below it, which is looked for as soon
//           as a tile's scores are there; O is rescaled before the tile's P are taken
//   lazy    against the largest score of the first tile, as long as that goes well: no maximum per tile, but
//           the sums must be looked at between exponentials and product (tile/softmax.hpp)
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm80/mainloop.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm80 {

// A thread's rows: two per 16-row tile.
template <Config C>
struct RowState {
  float largest[C.lazy ? 1 : C.row_tiles][2];  // eager: of the tile last looked at, as the fragments hold it
  tile::RowState tiles[C.row_tiles];
};

// Eager: O is rescaled only when the largest score grew by more than 2^8: until then P are at most 256, which
// 16 bits hold as exactly as 1, and the division at the end puts everything right.
inline constexpr float kSlack = 8.0f;
// Two 16-row tiles are chains enough, and there is no register to spare.
inline constexpr int kChains = 1;

template <class Factor>
__device__ inline float rise(float largest, float row_max, Factor factor) {
  return fmaf(largest, tile::factor_of(factor, row_max), -row_max);
}

// A tile's scores are there. True if O has to be rescaled before their P are taken, because some row of the
// warp grew. `factor` turns scores into exponents of 2 (tile::factor_of).
template <Config C, class Factor>
__device__ inline bool look_at(const Scores<C>& s, RowState<C>& rows, Factor factor) {
  if constexpr (C.lazy) {
    return false;
  } else {
    bool grew = false;
#pragma unroll
    for (int i = 0; i < 2 * C.row_tiles; ++i) {
      const int m = i / 2, r = i % 2;
      tile::find_largest<kChains>(s[m], rows.largest[m], r, r + 1);
      grew |= rise(rows.largest[m][r], rows.tiles[m].row_max[r], factor) > kSlack;
    }
    return __any_sync(0xffffffffu, grew);
  }
}

// The same for a row's first tile. Lazy: its largest score is the row max.
template <Config C, class Factor>
__device__ inline bool look_at_first(const Scores<C>& s, RowState<C>& rows, Factor factor) {
  if constexpr (C.lazy) {
#pragma unroll
    for (int m = 0; m < C.row_tiles; ++m) tile::start_row_max<kChains>(s[m], rows.tiles[m], factor);
  }
  return look_at<C>(s, rows, factor);
}

// After look_at said so. Each row decides for itself, so that no row's bits depend on its neighbours.
template <Config C, class Factor>
__device__ inline void rescale(RowState<C>& rows, Output<C>& o, Factor factor) {
  if constexpr (!C.lazy) {
#pragma unroll
    for (int r = 0; r < 2 * C.row_tiles; ++r) {
      tile::RowState& state = rows.tiles[r / 2];
      const float row_max = state.row_max[r % 2], largest = rows.largest[r / 2][r % 2];
      const bool grew = rise(largest, row_max, factor) > kSlack;
      tile::scale_row(o[r / 2], r % 2,
                      tile::move_row_max(state, r % 2, grew ? tile::row_max_of(factor, largest) : row_max));
    }
  }
}

template <Config C, class T, class Factor>
__device__ inline void take_probs(Probs<C>& probs, const Scores<C>& s, RowState<C>& rows, Output<C>& o,
                                  Factor factor) {
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m) {
    float sum[2];
    tile::exponentiate<T>(probs[m], s[m], rows.tiles[m], factor, sum);
    if constexpr (C.lazy) {
      if (tile::any_grown(sum)) {
        float shrink[2];
        tile::start_over<kChains>(s[m], rows.tiles[m], factor, sum,
                                  static_cast<unsigned>(ptx::thread_x() % 32), shrink);
        tile::scale_rows(o[m], shrink);
        tile::exponentiate<T>(probs[m], s[m], rows.tiles[m], factor, sum);
      }
    }
    tile::add_sums(rows.tiles[m], sum);
  }
}

}  // namespace tessera::cuda::sm80
