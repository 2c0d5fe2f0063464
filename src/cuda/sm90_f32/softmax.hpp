// The softmax of a tile of scores: P in parts, in registers.
#pragma once

#include "cuda/sm90_f32/products.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm90_f32 {

using tile::RowState;

// P may grow so far above 1 (2^8) before exponents are taken against another row max: a row that rises in
// many small steps would have an error of exp2 in each.
inline constexpr float kMostExponent = 8.0f;

// What was summed so far has to be multiplied by `shrink`.
template <int kGroups>
__device__ inline void raise_row_max(const float (&s)[kGroups][4], RowState& rows, float factor,
                                     float (&shrink)[2]) {
  float largest[2];
  tile::find_largest<4>(s, largest, 0, 2);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float most = fmaxf(largest[r] * factor, tile::kLowest);  // a row that sees nothing yet: finite
    shrink[r] = tile::move_row_max(rows, r, most > rows.row_max[r] + kMostExponent ? most : rows.row_max[r]);
  }
}

// Scores to P. `factor` turns scores into exponents of 2.
template <Config C>
__device__ inline void soften(Probs<C>& probs, const Scores<C>& s, RowState& rows, float factor,
                              float (&shrink)[2]) {
  raise_row_max(s, rows, factor, shrink);
  float sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float x = ptx::exp2_approx(fmaf(s[n][2 * r], factor, -rows.row_max[r]));
      const float y = ptx::exp2_approx(fmaf(s[n][2 * r + 1], factor, -rows.row_max[r]));
      sum[r] += x + y;
      unsigned words[tile::kParts];
      tile::split(make_float2(x, y), words);
#pragma unroll
      for (int part = 0; part < tile::kParts; ++part) probs[part][n / 2][n % 2 * 2 + r] = words[part];
    }
  tile::add_sums(rows, sum);
}

}  // namespace tessera::cuda::sm90_f32
