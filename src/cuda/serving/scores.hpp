// What happens to a warp's 16 rows of scores between the two products: options, hiding, softmax.
#pragma once

#include "cuda/serving/run.hpp"
#include "cuda/sm80/softmax.hpp"
#include "cuda/tile/options.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::serving {

// kOptions: scores are changed one by one; else they are only scaled and hidden by position.
template <bool kOptions>
struct Rules {
  using Factor = float;
  __device__ static Factor factor(const Params& p) { return p.scoring.scale_log2; }
};
template <>
struct Rules<true> {
  using Factor = tile::MaskedFactor;
  __device__ static Factor factor(const Params& p) { return {p.units.factor}; }
};

// Four scores of a thread: of keys `key` and the one 8 behind it (e / 2), packed rows `row` and the next (e %
// 2). With options they are exponents of 2 afterwards; else dot products still.
template <class T, bool kOptions>
struct ThreadScores {
  const Params& p;
  const Task& task;

  // `first_key`: of the warp's 16.
  __device__ void change(float (&s)[4], int first_key, int key, int row) const {
    if constexpr (kOptions) {
      const tile::AnyView<T> view = view_of<T>(p, task);
#pragma unroll 1
      for (int r = 0; r < 2; ++r) {
        const tile::OptionScores of(p, view, view.index(min(row + r, task.rows - 1)));
        const float x = of(p, view.band, key, r == 0 ? s[0] : s[1]);
        const float y = of(p, view.band, key + 8, r == 0 ? s[2] : s[3]);
        if (r == 0) s[0] = x, s[2] = y;
        if (r == 1) s[1] = x, s[3] = y;
      }
    } else if (first_key < task.seen.full_begin || first_key + 16 > task.seen.full_end) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int position = p.pack.divide(min(row + e % 2, task.rows - 1)) + task.offset,
                  at = key + e / 2 * 8;
        if (at < position - p.visibility.left || at > position + p.visibility.right || at >= task.keys)
          s[e] = tile::minus_infinity();
      }
    }
  }
};

// The rows of a warp: `row` is the thread's first, packed; the second is 8 behind it.
template <class T, bool kOptions>
struct WarpRows {
  const Params& p;
  const Task& task;
  int row;

  // `first_key`: of 8 * kGroups; `key`: the thread's first.
  template <int kGroups>
  __device__ void change(float (&s)[kGroups][4], int first_key, int key) const {
    if constexpr (kOptions) {
      const tile::AnyView<T> view = view_of<T>(p, task);
      // How a softcap is worked out depends on the warp's largest score, which no unseen key may be.
      const tile::KeyRange& seen = task.seen;
      if (first_key < seen.begin || first_key + 8 * kGroups > seen.end) {
#pragma unroll
        for (int n = 0; n < kGroups; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int at = key + 8 * n + e % 2;
            if (at < seen.begin || at >= seen.end) s[n][e] = 0.0f;
          }
      }
      tile::change_all<false>(s, p);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const tile::RowIndex at = view.index(min(row + 8 * r, view.rows - 1));
        tile::change_row<true>(s, r, p, tile::OptionScores(p, view, at), view.band, key);
      }
    } else if (first_key < task.seen.full_begin || first_key + 8 * kGroups > task.seen.full_end) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int position = p.pack.divide(min(row + 8 * r, task.rows - 1)) + task.offset;
        tile::PlainScores::hide(s, r, position - p.visibility.left - key,
                                min(position + p.visibility.right + 1, task.keys) - key);
      }
    }
  }
};

// An f32 output shows how P of the key that a row sees most was rounded; it is 1 exactly, and so not rounded,
// where the row max has no slack and is a score as scaled: scaling and subtracting at once would leave what
// the largest score was rounded by.
__device__ inline float slack_of(const Params& p) { return p.output.f32 != 0 ? 0.0f : sm80::kSlack; }
// Returns the factor that is left.
template <class Scores>
__device__ inline float scale_first(Scores& s, float factor) {
  constexpr int kCount = sizeof(Scores) / sizeof(float);
  float* const all = reinterpret_cast<float*>(&s);
#pragma unroll
  for (int i = 0; i < kCount; ++i) all[i] *= factor;
  return 1.0f;
}
template <int kGroups>
__device__ inline tile::RowFactors scale_first(float (&s)[kGroups][4], const tile::RowFactors& factors) {
  tile::scale_rows(s, factors.of);
  return {{1.0f, 1.0f}};
}

// Scores to P. O is rescaled where a row's largest score is more than a slack above its row max so far; each
// row decides for itself.
template <class T, int kGroups, int kColumns, class Factor>
__device__ inline void soften(unsigned (&probs)[kGroups / 2][4], float (&s)[kGroups][4], tile::RowState& rows,
                              float (&o)[kColumns][4], Factor factor, const Params& p) {
  const float slack = slack_of(p);
  float largest[2];
  tile::find_largest<1>(s, largest, 0, 2);
  bool grew[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) grew[r] = sm80::rise(largest[r], rows.row_max[r], factor) > slack;
  if (__any_sync(0xffffffffu, grew[0] || grew[1])) {
    float shrink[2];
#pragma unroll
    for (int r = 0; r < 2; ++r)
      shrink[r] =
          tile::move_row_max(rows, r, grew[r] ? tile::row_max_of(factor, largest[r]) : rows.row_max[r]);
    tile::scale_rows(o, shrink);
  }
  auto factors = tile::row_factors(rows, factor);
  if (p.output.f32 != 0) factors = scale_first(s, factors);
  float sum[2];
  tile::exponentiate_shifted<T>(
      probs, s, [&](int r, int) { return -rows.row_max[r]; }, factors, sum);
  tile::add_sums(rows, sum);
}

}  // namespace tessera::cuda::serving
