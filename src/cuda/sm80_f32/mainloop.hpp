// The products of the f32 kernel, for one warp and 16 rows: sm80's, with operands in three parts. A product
// of parts is exact, but tensor cores cut off what an accumulator cannot hold, always towards zero. So the
// small products are summed by themselves, the large ones over a few steps only, and the sums are added by
// plain additions, which round to nearest.
#pragma once

#include "cuda/ptx/matrix.hpp"
#include "cuda/sm80/mainloop.hpp"
#include "cuda/sm80_f32/parts.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm80_f32 {

using sm80::Config;
using tile::fragment_address;

template <Config C>
using Probs = unsigned[C.keys / 16][kParts][4];

// Steps of 16 that the large products are summed over by tensor cores.
inline constexpr int kSteps = 4;
// Fragments of 8 columns that are computed side by side: products that do not wait for each other.
inline constexpr int kBeside = 4;

// One step: 16 columns from two fragments of B on.
__device__ inline void multiply_parts(float (&large)[4], float (&small)[4], const unsigned (&a)[kParts][4],
                                      const unsigned (&b)[kParts][4], int half) {
  constexpr struct { int a, b; } kSmall[] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}};
#pragma unroll
  for (int i = 0; i < 5; ++i)
    ptx::mma_f32<Part>(small, a[kSmall[i].a], b[kSmall[i].b][2 * half], b[kSmall[i].b][2 * half + 1]);
  ptx::mma_f32<Part>(large, a[0], b[0][2 * half], b[0][2 * half + 1]);
}

template <Config C>
__device__ inline void multiply_query_key(sm80::Scores<C>& s, unsigned query, unsigned key) {
  constexpr int kGroups = C.keys / 8 < kBeside ? C.keys / 8 : kBeside;
#pragma unroll
  for (int first = 0; first < C.keys / 8; first += kGroups) {
    float sum[kGroups][4], small[kGroups][4];
    tile::clear(sum);
    tile::clear(small);
#pragma unroll
    for (int from = 0; from < C.dim / 16; from += kSteps) {
      float large[kGroups][4];
      tile::clear(large);
#pragma unroll
      for (int k = from; k < from + kSteps; ++k) {
        unsigned a[kParts][4];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
          ptx::load_matrix_x4(a[part], fragment_address<C.dim>(query + part * C.rows() * C.dim * 2, 0, k));
#pragma unroll
        for (int n = 0; n < kGroups; n += 2) {
          unsigned b[kParts][4];
#pragma unroll
          for (int part = 0; part < kParts; ++part)
            ptx::load_matrix_x4(
                b[part], fragment_address<C.dim>(key + part * C.tile_keys() * C.dim * 2, 8 * (first + n), k));
#pragma unroll
          for (int half = 0; half < 2; ++half) multiply_parts(large[n + half], small[n + half], a, b, half);
        }
      }
      tile::add(sum, large);
    }
    tile::add(sum, small);
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[0][first + n][e] = sum[n][e];
  }
}

template <Config C>
__device__ inline void multiply_probs_value(sm80::Output<C>& o, const Probs<C>& probs, unsigned value) {
  static_assert(C.keys / 16 <= kSteps, "a tile's large products are one sum");
#pragma unroll
  for (int first = 0; first < C.value_dim / 8; first += kBeside) {
    float large[kBeside][4], small[kBeside][4];
    tile::clear(large);
    tile::clear(small);
#pragma unroll
    for (int k = 0; k < C.keys / 16; ++k)
#pragma unroll
      for (int n = 0; n < kBeside; n += 2) {
        unsigned b[kParts][4];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
          ptx::load_matrix_x4_transposed(
              b[part], fragment_address<C.value_dim>(value + part * C.tile_keys() * C.value_dim * 2, 16 * k,
                                                     (first + n) / 2));
#pragma unroll
        for (int half = 0; half < 2; ++half)
          multiply_parts(large[n + half], small[n + half], probs[k], b, half);
      }
#pragma unroll
    for (int n = 0; n < kBeside; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) o[0][first + n][e] += large[n][e] + small[n][e];
  }
}

// Scores to P in parts, and their sums. `factor` turns scores into exponents of 2.
template <Config C>
__device__ inline void take_probs(Probs<C>& probs, const sm80::Scores<C>& s, tile::RowState& rows,
                                  tile::MaskedFactor factor) {
  const tile::RowFactors factors = tile::row_factors(rows, factor);
  float sum[2];
#pragma unroll
  for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float x = ptx::exp2_approx(fmaf(s[0][n][2 * r], factors.of[r], -rows.row_max[r]));
      const float y = ptx::exp2_approx(fmaf(s[0][n][2 * r + 1], factors.of[r], -rows.row_max[r]));
      sum[r] = n == 0 ? x + y : sum[r] + (x + y);
      unsigned parts[kParts];
      split(x, y, parts);
#pragma unroll
      for (int part = 0; part < kParts; ++part) probs[n / 2][part][n % 2 * 2 + r] = parts[part];
    }
  tile::add_sums(rows, sum);
}

}  // namespace tessera::cuda::sm80_f32
