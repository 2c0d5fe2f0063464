// Scores to weights, in one of two ways (C.lazy):
//
//   eager   exponents against the largest score so far, or up to kSlack below it, which is looked for as soon
//           as a tile's scores are there; O is rescaled before the tile's weights are taken
//   lazy    against the largest score of the first tile, as long as that goes well: no maximum per tile, but
//           the sums must be looked at between exponentials and product (tile/softmax.hpp)
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm80/mainloop.hpp"
#include "cuda/tile/quad.hpp"
#include "cuda/tile/softmax.hpp"

namespace tessera::cuda::sm80 {

// A thread's rows: two per 16-row tile.
template <Config C>
struct Rows {
  static constexpr int kCount = 2 * C.row_tiles;
  float largest[C.lazy ? 1 : kCount];  // eager: of the tile last looked at, in the units of the fragments
  float reference[kCount];
  float sum[kCount];  // this thread's part
};

// Eager: O is rescaled only when the largest score grew by more than 2^8: until then the weights are at most
// 256, which 16 bits hold as exactly as 1, and the division at the end puts everything right.
inline constexpr float kSlack = 8.0f;

// Of row h of 16-row tile m, over the four threads that share it.
template <Config C>
__device__ inline float largest_score(const Scores<C>& s, int m, int h) {
  float largest = fmaxf(s[m][0][2 * h], s[m][0][2 * h + 1]);
#pragma unroll
  for (int n = 1; n < C.keys / 8; ++n) largest = fmaxf(largest, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
  return tile::quad_max(largest);
}

// A tile's scores are there. True if O has to be rescaled before their weights are taken, because some row of
// the warp grew. `factor` turns scores into exponents of 2.
template <Config C>
__device__ inline bool look_at(const Scores<C>& s, Rows<C>& rows, float factor) {
  if constexpr (C.lazy) {
    return false;
  } else {
    bool grew = false;
#pragma unroll
    for (int r = 0; r < Rows<C>::kCount; ++r) {
      rows.largest[r] = largest_score<C>(s, r / 2, r % 2);
      grew |= fmaf(rows.largest[r], factor, -rows.reference[r]) > kSlack;
    }
    return __any_sync(0xffffffffu, grew);
  }
}

// The same for a row's first tile. Lazy: its largest score is the reference.
template <Config C>
__device__ inline bool look_at_first(const Scores<C>& s, Rows<C>& rows, float factor) {
  if constexpr (C.lazy) {
#pragma unroll
    for (int r = 0; r < Rows<C>::kCount; ++r)  // a row that sees nothing yet keeps a finite one
      rows.reference[r] = fmaxf(largest_score<C>(s, r / 2, r % 2) * factor, tile::kLowest);
  }
  return look_at<C>(s, rows, factor);
}

// Row h of 16-row tile m goes on from another reference. Each row decides for itself whether it does, so that
// no row's bits depend on its neighbours.
template <Config C>
__device__ inline void move_reference(Rows<C>& rows, Output<C>& o, int m, int h, float reference) {
  const float shrink = tile::fast_exp2(rows.reference[2 * m + h] - reference);
  rows.reference[2 * m + h] = reference;
  rows.sum[2 * m + h] *= shrink;
#pragma unroll
  for (int n = 0; n < C.value_dim / 8; ++n) {
    o[m][n][2 * h] *= shrink;
    o[m][n][2 * h + 1] *= shrink;
  }
}

// After look_at said so.
template <Config C>
__device__ inline void rescale(Rows<C>& rows, Output<C>& o, float factor) {
  if constexpr (!C.lazy) {
#pragma unroll
    for (int r = 0; r < Rows<C>::kCount; ++r) {
      const float reference = rows.reference[r];
      const bool grew = fmaf(rows.largest[r], factor, -reference) > kSlack;
      move_reference<C>(rows, o, r / 2, r % 2, grew ? rows.largest[r] * factor : reference);
    }
  }
}

// Scores of 16-row tile m to weights, rounded to 16 bits, and their sums.
template <Config C, class T>
__device__ inline void exponentiate(Weights<C>& w, const Scores<C>& s, const Rows<C>& rows, int m,
                                    float factor, float (&sum)[2]) {
#pragma unroll
  for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float reference = rows.reference[2 * m + h];
      const float x = tile::fast_exp2(fmaf(s[m][n][2 * h], factor, -reference));
      const float y = tile::fast_exp2(fmaf(s[m][n][2 * h + 1], factor, -reference));
      sum[h] = n == 0 ? x + y : sum[h] + (x + y);  // in pairs: half as long a chain of additions
      w[m][n / 2][n % 2 * 2 + h] = tile::pack<T>(x, y);
    }
}

// Lazy: rows of 16-row tile m whose weights have grown too far start over from the largest score there is
// now.
template <Config C>
__device__ inline void start_over(const Scores<C>& s, Rows<C>& rows, Output<C>& o, int m, float factor,
                                  const float (&sum)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float largest = largest_score<C>(s, m, h) * factor;
    const unsigned grown = __ballot_sync(0xffffffffu, !(sum[h] <= tile::kMostSum));
    const bool mine = (grown >> (ptx::thread_x() % 32 & ~3) & 15u) != 0;
    move_reference<C>(rows, o, m, h, mine ? largest : rows.reference[2 * m + h]);
  }
}

template <Config C, class T>
__device__ inline void take_weights(Weights<C>& w, const Scores<C>& s, Rows<C>& rows, Output<C>& o,
                                    float factor) {
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m) {
    float sum[2];
    exponentiate<C, T>(w, s, rows, m, factor, sum);
    if constexpr (C.lazy) {
      if (__any_sync(0xffffffffu, !(fmaxf(sum[0], sum[1]) <= tile::kMostSum))) {
        start_over<C>(s, rows, o, m, factor, sum);
        exponentiate<C, T>(w, s, rows, m, factor, sum);
      }
    }
    rows.sum[2 * m] += sum[0];
    rows.sum[2 * m + 1] += sum[1];
  }
}

}  // namespace tessera::cuda::sm80
