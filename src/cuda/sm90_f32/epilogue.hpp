// The end of a row: O from registers to global memory, and the rows that have to be computed again.
#pragma once

#include "cuda/ptx/global_store.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90_f32/params.hpp"
#include "cuda/sm90_f32/products.hpp"
#include "cuda/tile/careful.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm90_f32 {

// Columns `column` and the next of a row, as far as there are such; aligned: as F32Params::aligned.
__device__ inline void write_pair(float* row, int column, int columns, bool aligned, float x, float y) {
  if (aligned) {
    if (column < columns) ptx::store_words(row + column, __float_as_uint(x), __float_as_uint(y));
  } else {
    if (column < columns) row[column] = x;
    if (column + 1 < columns) row[column + 1] = y;
  }
}

// Row r (0, 1) of the thread's. False if something in it is not finite.
template <Config C>
__device__ inline bool write_row(const Params& p, const tile::BlockView<float>& view, int row,
                                 tile::SoftmaxState state, const Output<C>& o, int r, bool aligned) {
  const int lane = ptx::thread_x() % 32;
  const tile::RowIndex at = view.index(row);
  const float keep = tile::join_sink(p, at.head, state);
  const float inverse = tile::inverse_sum(state) * keep;
  float* const out = tile::output_row(p, view, at);
  float check = 0.0f * state.sum;  // 0 times a number is 0, times anything else NaN
#pragma unroll
  for (int n = 0; n < C.value_dim / 8; ++n) {
    const float x = o[n / 8][n % 8][2 * r] * inverse, y = o[n / 8][n % 8][2 * r + 1] * inverse;
    check = fmaf(y, 0.0f, fmaf(x, 0.0f, check));
    write_pair(out, 8 * n + 2 * (lane % 4), p.sizes.value_dim, aligned, x, y);
  }
  if (lane % 4 == 0) tile::write_lse(p, view, at, tile::log_sum_exp(p, view, at, state));
  return check == 0.0f;
}

// The 16 rows of a warp, from first_row on; rows: the sums of single threads. A row in which something is not
// finite is computed again, key by key (tile/careful.hpp): a hidden key may have NaN or inf, and of a visible
// inf the parts are NaN. So are all rows where the parts of some number are not the number (`lost`).
template <Config C>
__device__ inline void finish_rows(const F32Params& params, const sm90::TileIndex& at, int first_row,
                                   tile::RowState& rows, const Output<C>& o, bool lost) {
  const Params& p = params.problem;
  const tile::BlockView<float> view = tile::block_view<float>(p, at.batch, at.head);
  const int lane = ptx::thread_x() % 32;
  tile::join_sums(rows);
  unsigned suspect[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + lane / 4 + 8 * r;
    const bool there = row < view.rows;
    const bool sound = !there || (write_row<C>(p, view, row, rows.of(r), o, r, params.aligned != 0) && !lost);
    suspect[r] = __ballot_sync(0xffffffffu, !sound);
  }
  if ((suspect[0] | suspect[1]) == 0) return;
#pragma unroll 1
  for (int i = 0; i < 16; ++i)
    if (((i < 8 ? suspect[0] : suspect[1]) >> (i % 8 * 4) & 15u) != 0)
      tile::careful_row<float, true>(p, at.batch, at.head, first_row + i);
}

}  // namespace tessera::cuda::sm90_f32
