// The online softmax of a thread's two rows of an accumulator: scores to P, in registers. Exponents are taken
// against the running row max, which may lag behind: see kMostSum in tile/softmax.hpp.
#pragma once

#include "cuda/tile/accumulator.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/quad.hpp"
#include "cuda/tile/softmax.hpp"

namespace tessera::cuda::tile {

// Scores times log2(e) throughout.
struct RowState {
  float row_max[2];
  float sum[2];  // this thread's part

  __device__ SoftmaxState of(int r) const { return {row_max[r], sum[r]}; }
};
__device__ inline RowState empty_rows() { return {{kLowest, kLowest}, {0.0f, 0.0f}}; }

// The largest score of each row from `first` on, over the four threads that share it. One chain of maxima
// waits for itself at every step: several take less time, and more registers.
template <int kChains, int kGroups>
__device__ inline void find_largest(const float (&s)[kGroups][4], float (&largest)[2], int first, int end) {
  float most[2][kChains];
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int r = first; r < end; ++r) {
      const float pair = fmaxf(s[n][2 * r], s[n][2 * r + 1]);
      most[r][n % kChains] = n < kChains ? pair : fmaxf(most[r][n % kChains], pair);
    }
#pragma unroll
  for (int r = first; r < end; ++r) {
#pragma unroll
    for (int step = kChains / 2; step > 0; step /= 2)
#pragma unroll
      for (int i = 0; i < step; ++i) most[r][i] = fmaxf(most[r][2 * i], most[r][2 * i + 1]);
    largest[r] = quad_max(most[r][0]);
  }
}

__device__ inline float row_factors(const RowState&, float factor) { return factor; }
__device__ inline RowFactors row_factors(const RowState& rows, MaskedFactor factor) {
  return {{factor_of(factor, rows.row_max[0]), factor_of(factor, rows.row_max[1])}};
}
__device__ inline RowFactors row_factors(const RowState&, const RowFactors& factors) { return factors; }
__device__ inline float of_row(float factor, int) { return factor; }
__device__ inline MaskedFactor of_row(MaskedFactor factor, int) { return factor; }
__device__ inline float of_row(const RowFactors& factors, int r) { return factors.of[r]; }

// The first row max: the largest score of the row's first tile.
template <int kChains, int kRows = 2, int kGroups, class Factor>
__device__ inline void start_row_max(const float (&s)[kGroups][4], RowState& rows, Factor factor) {
  float largest[2];
  find_largest<kChains>(s, largest, 0, kRows);
#pragma unroll
  for (int r = 0; r < kRows; ++r)  // a row that sees nothing yet keeps a finite one
    rows.row_max[r] = fmaxf(row_max_of(of_row(factor, r), largest[r]), kLowest);
}

// Scores to P, rounded, and their sums; of all keys, or of groups of 8 from kFrom to kTo. To the exponents of
// row r, shift(r, key) is added: minus the row max, and what else a policy adds. Keys are counted from the
// thread's first. Factors: float or RowFactors.
template <class T, int kRows = 2, int kFrom = 0, int kTo = 0, int kGroups, class Shift, class Factors>
__device__ inline void exponentiate_shifted(unsigned (&probs)[kGroups / 2][4], const float (&s)[kGroups][4],
                                            const Shift& shift, const Factors& factors, float (&sum)[2]) {
#pragma unroll
  for (int n = kFrom; n < (kTo == 0 ? kGroups : kTo); ++n) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float x = ptx::exp2_approx(fmaf(s[n][2 * r], of_row(factors, r), shift(r, 8 * n)));
      const float y = ptx::exp2_approx(fmaf(s[n][2 * r + 1], of_row(factors, r), shift(r, 8 * n + 1)));
      sum[r] = n == kFrom ? x + y : sum[r] + (x + y);  // in pairs: half as long a chain of additions
      probs[n / 2][n % 2 * 2 + r] = pack<T>(x, y);
    }
    // A row that is not there gets P of its own, whatever they are: if nothing read its scores, the compiler
    // would make wgmma products wait for each other.
    if (kRows == 1) probs[n / 2][n % 2 * 2 + 1] = pack<T>(s[n][2], s[n][3]);
  }
}

template <class T, int kRows = 2, int kFrom = 0, int kTo = 0, int kGroups, class Factor>
__device__ inline void exponentiate(unsigned (&probs)[kGroups / 2][4], const float (&s)[kGroups][4],
                                    const RowState& rows, Factor factor, float (&sum)[2]) {
  exponentiate_shifted<T, kRows, kFrom, kTo>(
      probs, s, [&](int r, int) { return -rows.row_max[r]; }, row_factors(rows, factor), sum);
}

template <int kRows = 2>
__device__ inline void add_sums(RowState& rows, const float (&sum)[2]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) rows.sum[r] += sum[r];
}

// Whether a row of the warp has grown too far above its row max; `sum` is of one tile.
template <int kRows = 2>
__device__ inline bool any_grown(const float (&sum)[2]) {
  const float most = kRows == 1 ? sum[0] : fmaxf(sum[0], sum[1]);
  return __any_sync(0xffffffffu, !(most <= kMostSum));
}

// The row goes on from another row max; returns what its part of O has to be multiplied by.
__device__ inline float move_row_max(RowState& rows, int r, float row_max) {
  const float shrink = ptx::exp2_approx(rows.row_max[r] - row_max);
  rows.row_max[r] = row_max;
  rows.sum[r] *= shrink;
  return shrink;
}

// Rows that have grown too far start over from the largest score of this tile. Each decides for itself, so
// that no row's bits depend on its neighbours.
template <int kChains, int kRows = 2, int kGroups, class Factor>
__device__ inline void start_over(const float (&s)[kGroups][4], RowState& rows, Factor factor,
                                  const float (&sum)[2], unsigned lane, float (&shrink)[2]) {
  float largest[2];
  find_largest<kChains>(s, largest, 0, kRows);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const unsigned grown = __ballot_sync(0xffffffffu, !(sum[r] <= kMostSum));
    const bool mine = (grown >> (lane & ~3u) & 15u) != 0;
    shrink[r] = move_row_max(rows, r, mine ? row_max_of(of_row(factor, r), largest[r]) : rows.row_max[r]);
  }
}
// The same where exponents are shifted; `shift` is of a row max of 0.
template <int kGroups, class Shift>
__device__ inline void start_over_shifted(const float (&s)[kGroups][4], RowState& rows, const Shift& shift,
                                          float factor, const float (&sum)[2], unsigned lane,
                                          float (&shrink)[2]) {
  float largest[2] = {kLowest, kLowest};
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      largest[i / 2] = fmaxf(largest[i / 2], fmaf(s[n][i], factor, shift(i / 2, 8 * n + i % 2)));
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float row_max = quad_max(largest[r]);
    const unsigned grown = __ballot_sync(0xffffffffu, !(sum[r] <= kMostSum));
    const bool mine = (grown >> (lane & ~3u) & 15u) != 0;
    shrink[r] = move_row_max(rows, r, mine ? row_max : rows.row_max[r]);
  }
}

// The rows have ended: their row max in the usual unit.
__device__ inline void end_row_max(RowState& rows, MaskedFactor factor) {
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.row_max[r] = usual_row_max(factor, rows.row_max[r]);
}

// From the sums of single threads to those of rows, in all four threads of each; the rows step by step, so
// that neither waits for the other.
template <int kRows = 2>
__device__ inline void join_sums(RowState& rows) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
#pragma unroll
    for (int r = 0; r < kRows; ++r) rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], step);
}

}  // namespace tessera::cuda::tile
