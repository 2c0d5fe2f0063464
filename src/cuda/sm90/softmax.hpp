// Scores in the accumulators of a warpgroup to weights in the layout of A, in registers. Every thread holds
// two rows, or uses the first of them alone (Config::warp_rows); see ptx/wgmma.hpp for which elements.
#pragma once

#include "cuda/sm90/fragments.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/quad.hpp"
#include "cuda/tile/softmax.hpp"

namespace tessera::cuda::sm90 {

// A thread's two rows. Exponents are taken against `reference`, which hardly ever moves: see tile::kMostSum.
// Scores times log2(e) throughout.
struct Rows {
  float reference[2], sum[2];
};

// The largest score of each row, over the four threads that share it. Four chains a row: one would wait for
// itself at every step.
template <Config C>
__device__ inline void find_largest(const Scores<C>& s, float (&largest)[2]) {
  float most[2][4];
#pragma unroll
  for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
    for (int r = 0; r < C.thread_rows(); ++r) {
      const float pair = fmaxf(s[4 * n + 2 * r], s[4 * n + 2 * r + 1]);
      most[r][n % 4] = n < 4 ? pair : fmaxf(most[r][n % 4], pair);
    }
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) {
    const float mine = fmaxf(fmaxf(most[r][0], most[r][1]), fmaxf(most[r][2], most[r][3]));
    largest[r] = tile::quad_max(mine);
  }
}

// Scores to weights, and their sums; of all keys, or of some.
template <Config C, class T, int kFrom = 0, int kTo = C.keys>
__device__ inline void exponentiate(Weights<C>& w, const Scores<C>& s, const Rows& rows, float factor,
                                    float (&sum)[2]) {
#pragma unroll
  for (int n = kFrom / 8; n < kTo / 8; ++n) {
#pragma unroll
    for (int r = 0; r < C.thread_rows(); ++r) {
      const float x = tile::fast_exp2(fmaf(s[4 * n + 2 * r], factor, -rows.reference[r]));
      const float y = tile::fast_exp2(fmaf(s[4 * n + 2 * r + 1], factor, -rows.reference[r]));
      sum[r] = n == kFrom / 8 ? x + y : sum[r] + (x + y);
      w[n / 2][n % 2 * 2 + r] = tile::pack<T>(x, y);
    }
    // A row that is not there gets weights of its own, whatever they are: if nothing read its scores, the
    // compiler would make the products wait for each other.
    if (C.thread_rows() == 1) w[n / 2][n % 2 * 2 + 1] = tile::pack<T>(s[4 * n + 2], s[4 * n + 3]);
  }
}

template <Config C>
__device__ inline void add_sums(Rows& rows, const float (&sum)[2]) {
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) rows.sum[r] += sum[r];
}

// The first reference of a row: the largest score of its first tile.
template <Config C>
__device__ inline void start_rows(const Scores<C>& s, Rows& rows, float factor) {
  float largest[2];
  find_largest<C>(s, largest);
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r)  // a row that sees nothing yet keeps a finite reference
    rows.reference[r] = fmaxf(largest[r] * factor, tile::kLowest);
}

// The first tile of a row.
template <Config C, class T>
__device__ inline void start_softmax(Weights<C>& w, const Scores<C>& s, Rows& rows, float factor) {
  start_rows<C>(s, rows, factor);
  exponentiate<C, T>(w, s, rows, factor, rows.sum);
}

// Any later one, as long as nothing has grown too far. False if something has: then only the weights are
// written, and grown_softmax is to follow.
template <Config C, class T>
__device__ inline bool continue_softmax(Weights<C>& w, const Scores<C>& s, Rows& rows, float factor) {
  float sum[2];
  exponentiate<C, T>(w, s, rows, factor, sum);
  const float most = C.thread_rows() == 1 ? sum[0] : fmaxf(sum[0], sum[1]);
  if (__any_sync(0xffffffffu, !(most <= tile::kMostSum))) return false;
  add_sums<C>(rows, sum);
  return true;
}

// The same where something may have grown; rows that have not keep their bits. O has to be multiplied by
// `shrink`.
template <Config C, class T>
__device__ inline void grown_softmax(Weights<C>& w, const Scores<C>& s, Rows& rows, float factor,
                                     float (&shrink)[2]) {
  float sum[2], largest[2];
  exponentiate<C, T>(w, s, rows, factor, sum);
  find_largest<C>(s, largest);
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) {
    // Each row decides for itself: no row's bits depend on its neighbours.
    const unsigned ballot = __ballot_sync(0xffffffffu, !(sum[r] <= tile::kMostSum));
    const bool mine = (ballot >> (threadIdx.x % 32 & ~3u) & 15u) != 0;
    const float reference = mine ? largest[r] * factor : rows.reference[r];
    shrink[r] = tile::fast_exp2(rows.reference[r] - reference);
    rows.reference[r] = reference;
    rows.sum[r] *= shrink[r];
  }
  exponentiate<C, T>(w, s, rows, factor, sum);
  add_sums<C>(rows, sum);
}

// From the sums of single threads to those of rows, in all four threads of each; both rows step by step, so
// that neither waits for the other.
template <Config C>
__device__ inline void join_sums(Rows& rows) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
#pragma unroll
    for (int r = 0; r < C.thread_rows(); ++r) rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], step);
}

template <Config C>
__device__ inline void rescale(Output<C>& o, const float (&shrink)[2]) {
#pragma unroll
  for (int n = 0; n < C.value_dim / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) o[4 * n + e] *= shrink[C.thread_rows() == 1 ? 0 : e / 2];
}

}  // namespace tessera::cuda::sm90
