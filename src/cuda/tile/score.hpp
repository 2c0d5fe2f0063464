// What may happen to a score between Q K and the softmax: scale, softcap, ALiBi, mask tensor, band. In: the
// dot product. Out: the score times log2(e), -inf where the key is hidden.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/tile/softmax.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::tile {

// Of one row: what does not depend on the key.
struct ScoreRow {
  int query;
  float slope;
  const void* mask;  // at key 0
};

template <class T>
__device__ inline ScoreRow score_row(const Params& p, const BlockView<T>& v, RowIndex at) {
  ScoreRow row{at.query, 0.0f, nullptr};
  if (p.per_head.alibi_slopes != nullptr) {
    row.slope = p.per_head.alibi_slopes[v.batch * p.per_head.alibi_batch_stride + at.head * p.per_head.alibi_head_stride];
  }
  if (p.visibility.mask_kind != MaskTensorKind::none) {
    const long long offset =
        v.batch * p.visibility.mask_strides[0] + at.head * p.visibility.mask_strides[1] + at.query * p.visibility.mask_strides[2];
    const int size = p.visibility.mask_kind == MaskTensorKind::boolean        ? 1
                     : p.visibility.mask_kind == MaskTensorKind::additive_f32 ? 4
                                                                   : 2;
    row.mask = static_cast<const char*>(p.visibility.mask) + offset * size;
  }
  return row;
}

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

// With every option of the interface.
__device__ inline float general_score(const Params& p, const Band& band, const ScoreRow& row, int key,
                                      float dot) {
  if (!band.visible(row.query, key)) return minus_infinity();
  float s = dot * p.scoring.scale;
  if (p.scoring.softcap > 0.0f) s = p.scoring.softcap * tanhf(s / p.scoring.softcap);
  if (p.per_head.alibi_slopes != nullptr) {
    const int distance = row.query + band.offset - key;
    s -= row.slope * static_cast<float>(distance < 0 ? -distance : distance);
  }
  if (p.visibility.mask_kind != MaskTensorKind::none) {
    const float add = additive_mask(p, row.mask, key);
    if (add == minus_infinity()) return add;  // hidden, whatever s is
    s += add;
  }
  return s * kLog2E;
}

// A thread's share of one row in the accumulators of a product: of every eight keys two neighbouring ones.
// score(n, e) is the one of key 8 n + e, counted from the thread's first.
//
// The row sees keys low ... high - 1, counted the same way.
template <int kKeys, class Score>
__device__ inline void hide_by_position(int low, int high, Score score) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int key = 8 * n + e;
      if (key < low || key >= high) score(n, e) = minus_infinity();
    }
}
template <int kKeys, class Score>
__device__ inline void apply_options(const Params& p, const Band& band, const ScoreRow& row, int first_key,
                                     Score score) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e) score(n, e) = general_score(p, band, row, first_key + 8 * n + e, score(n, e));
}

}  // namespace tessera::cuda::tile
