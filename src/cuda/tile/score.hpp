// What may happen to a score between Q K and the softmax: scale, softcap, ALiBi, mask tensor, band. Kernels
// have one of two policies for it. In: the dot product. Out: the score, -inf where the key is hidden; times
// factor(), taken as a Factor (tile/softmax.hpp), it is the exponent of 2.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/tile/softmax.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::tile {

// Scores are only scaled and hidden by position: nothing is to be done where a tile's rows see all its keys.
struct PlainScores {
  static constexpr bool kEveryTile = false;
  static constexpr bool kMaskTensor = false;
  static constexpr bool kRotates = false;
  using Factor = float;
  __device__ static float factor(const Params& p) { return p.scoring.scale_log2; }

  __device__ static void enter(const Params&, int, int) {}
  template <int kGroups>
  __device__ static void apply(float (&)[kGroups][4], const Params&, int, int) {}
  // What is added to exponents (exponentiate_shifted), of rows at `position` and 8 behind it; `key` is the
  // thread's first of a tile of kKeys, which are all before the rows' positions, or all behind.
  template <bool kBefore, int kKeys, class Rows>
  __device__ static auto shift(const Rows& rows, int, int) {
    return [&rows](int r, int) { return -rows.row_max[r]; };
  }

  // Row r of an accumulator sees keys low ... high - 1, counted from the thread's first.
  template <int kGroups>
  __device__ static void hide(float (&s)[kGroups][4], int r, int low, int high) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int key = 8 * n + e;
        if (key < low || key >= high) s[n][2 * r + e] = minus_infinity();
      }
  }
};

__device__ inline float additive_mask(const Params& p, const void* mask, int key) {
  const long long at = key * p.visibility.mask_strides[3];
  switch (p.visibility.mask_kind) {
    case MaskTensorKind::additive_f32:
      return static_cast<const float*>(mask)[at];
    case MaskTensorKind::additive_f16:
      return __half2float(static_cast<const __half*>(mask)[at]);
    case MaskTensorKind::additive_bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(mask)[at]);
    default:
      return static_cast<const unsigned char*>(mask)[at] != 0 ? 0.0f : minus_infinity();
  }
}

// Every option of the interface, score by score; of one row, what does not depend on the key. As a policy, it
// is options.hpp's change_all and change_row.
struct OptionScores {
  static constexpr bool kEveryTile = true;
  static constexpr bool kMaskTensor = true;
  using Factor = MaskedFactor;
  __device__ static float factor(const Params& p) { return p.units.factor; }

  int query;
  float slope = 0.0f;
  const void* mask = nullptr;  // at key 0, which may be before the tensor's first
  int mask_from = 0;           // keys before it are not in the tensor, and visible

  template <class T, bool kAnywhere>
  __device__ OptionScores(const Params& p, const BlockView<T, kAnywhere>& v, RowIndex at) : query(at.query) {
    if (p.per_head.alibi_slopes != nullptr) {
      slope =
          p.per_head
              .alibi_slopes[v.batch * p.per_head.alibi_batch_stride + at.head * p.per_head.alibi_head_stride];
    }
    const Visibility& visibility = p.visibility;
    if (visibility.mask_kind != MaskTensorKind::none) {
      long long offset = v.batch * visibility.mask_strides[0] + at.head * visibility.mask_strides[1] +
                         (kAnywhere ? v.first_query + at.query : at.query) * visibility.mask_strides[2];
      if (kAnywhere && visibility.mask_last_keys != 0) {
        const int first_key = v.band.keys - visibility.mask_columns;  // of column 0
        offset -= first_key * visibility.mask_strides[3];
        mask_from = max(first_key, 0);
      }
      const int size = visibility.mask_kind == MaskTensorKind::boolean        ? 1
                       : visibility.mask_kind == MaskTensorKind::additive_f32 ? 4
                                                                              : 2;
      mask = static_cast<const char*>(visibility.mask) + offset * size;
    }
  }

  // The exponent of 2 of one score.
  __device__ float operator()(const Params& p, const Band& band, int key, float dot) const {
    if (!band.visible(query, key)) return minus_infinity();
    float s = dot * p.scoring.scale;
    if (p.scoring.softcap > 0.0f) s = p.scoring.softcap * tanhf(s / p.scoring.softcap);
    if (p.per_head.alibi_slopes != nullptr) {
      const int distance = query + band.offset - key;
      s -= slope * static_cast<float>(distance < 0 ? -distance : distance);
    }
    if (p.visibility.mask_kind != MaskTensorKind::none && key >= mask_from) {
      const float add = additive_mask(p, mask, key);
      if (add == minus_infinity()) return add;  // hidden, whatever s is
      s += add;
    }
    const float exponent = s * kLog2E;
    return exponent < kLowest && s >= kLowest ? kLowest : exponent;  // finite stays finite
  }
};

// A row that sees keys, but none without an additive value so low that its exponent of 2 overflows (it was
// taken for least_bias), has the largest such value as its lse: everything else is lost beside it.
__device__ inline bool is_low(const Params& p, float lse) {
  return lse < 0.5f * p.units.least_bias && lse > minus_infinity() &&
         p.visibility.mask_kind >= MaskTensorKind::additive_f32;
}
// Of every step-th key from the first on.
template <class T, bool kAnywhere>
__device__ inline float largest_additive(const Params& p, const BlockView<T, kAnywhere>& v, RowIndex at,
                                         int first, int step) {
  const OptionScores row(p, v, at);
  const KeyRange range = key_range(v.band, at.query, at.query);
  float largest = minus_infinity();
  for (int key = range.begin + first; key < range.end; key += step)
    if (key >= row.mask_from) largest = fmaxf(largest, additive_mask(p, row.mask, key));
  return largest;
}
template <class T, bool kAnywhere>
__device__ inline float log_sum_exp(const Params& p, const BlockView<T, kAnywhere>& v, RowIndex at,
                                    const SoftmaxState& state) {
  const float lse = log_sum_exp(state);
  return is_low(p, lse) ? largest_additive(p, v, at, 0, 1) : lse;
}

// A head's sink, if it has one, joins the sums of its rows; what was summed so far is to be multiplied by
// `keep`.
template <int kRows>
__device__ inline void join_sink(const Params& p, int head, SoftmaxState (&state)[kRows],
                                 float (&keep)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) keep[r] = 1.0f;
  if (p.per_head.sinks == nullptr) return;
  const float sink = p.per_head.sinks[head * p.per_head.sinks_stride];
#pragma unroll
  for (int r = 0; r < kRows; ++r) keep[r] = add_sink(state[r], sink);
}
// Of a single row; returns `keep`.
__device__ inline float join_sink(const Params& p, int head, SoftmaxState& state) {
  return p.per_head.sinks == nullptr ? 1.0f
                                     : add_sink(state, p.per_head.sinks[head * p.per_head.sinks_stride]);
}

}  // namespace tessera::cuda::tile
