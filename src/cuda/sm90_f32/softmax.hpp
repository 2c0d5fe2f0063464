// The softmax of a tile of scores: P in parts, in registers.
#pragma once

#include "cuda/sm90_f32/products.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm90_f32 {

// The row max is that of the scores as they are; scale_row_max gives it the unit that others expect. Scores
// are taken off it before they are scaled: so that of the largest P is exactly 1, and where it is nearly all
// of a row, O is V to the last bit.
using tile::RowState;

// What was summed so far has to be multiplied by `shrink`. `factor` turns scores into exponents of 2.
template <int kGroups>
__device__ inline void raise_row_max(const float (&s)[kGroups][4], RowState& rows, float factor,
                                     float (&shrink)[2]) {
  float largest[2];
  tile::find_largest<4>(s, largest, 0, 2);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float before = rows.row_max[r];
    rows.row_max[r] = fmaxf(largest[r], before);  // of a row that sees nothing yet: tile::kLowest
    shrink[r] = ptx::exp2_approx((before - rows.row_max[r]) * factor);
    rows.sum[r] *= shrink[r];
  }
}

__device__ inline void scale_row_max(RowState& rows, float factor) {
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.row_max[r] = fmaxf(rows.row_max[r] * factor, tile::kLowest);
}

// Scores to P.
template <Config C>
__device__ inline void soften(Probs<C>& probs, const Scores<C>& s, RowState& rows, float factor,
                              float (&shrink)[2]) {
  raise_row_max(s, rows, factor, shrink);
  float sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float x = ptx::exp2_approx((s[n][2 * r] - rows.row_max[r]) * factor);
      const float y = ptx::exp2_approx((s[n][2 * r + 1] - rows.row_max[r]) * factor);
      sum[r] += x + y;
      unsigned words[tile::kParts];
      tile::split(make_float2(x, y), words);
#pragma unroll
      for (int part = 0; part < tile::kParts; ++part) probs[part][n / 2][n % 2 * 2 + r] = words[part];
    }
  tile::add_sums(rows, sum);
}

}  // namespace tessera::cuda::sm90_f32
