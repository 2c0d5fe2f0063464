// Keys and values of 8 bits: what is theirs in all consumers (coded_few.hpp, coded_more.hpp, coded_wide.hpp,
// coded_latent.hpp).
//
// Tiles are as those of 16 bits, of bytes: rows of 128, chunks of 16 codes. Codes become f16 on the way from
// shared memory to the tensor cores, which is exact; P is f16, too, whatever Q was. Scales of keys go into
// the scores. Scales of values that are one number for a sequence, or one for each column, go into O when a
// piece has ended. Those that differ from key to key go into P:
//
//   O = sum of exp2(s) v V = 2^m * sum of (exp2(s - m) v) V      m: the largest s + log2 |v|
//
// so that P times v is 1 at most, as P is without them. The row max that is kept is m; the row's sum is of
// exp2(s - m), in f32.
#pragma once

#include "cuda/serving/coded_query.hpp"
#include "cuda/serving/few.hpp"
#include "cuda/tile/mixed_rows.hpp"

namespace tessera::cuda::serving {

__device__ inline float log2_approx(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A value's scale, and what the exponent of its P has of it.
struct ValueScale {
  float factor = 1.0f, shift = 0.0f;

  ValueScale() = default;
  __device__ explicit ValueScale(float scale)
      : factor(scale), shift(fmaxf(log2_approx(fabsf(scale)), kLeastShift)) {}
  // Smaller scales leave fewer bits of P; sums of exp2(s - m) must not overflow.
  static constexpr float kLeastShift = -100.0f;
};

// Which scales a warp's keys had: were they too far apart, P would have too few bits for the smaller ones,
// and the rows are computed again with plain arithmetic.
struct ShiftRange {
  static constexpr float kMostApart = 20.0f;

  float least = -tile::kLowest, most = tile::kLowest;

  __device__ void note(const ValueScale& v) {
    if (v.factor == 0.0f) return;
    least = fminf(least, v.shift), most = fmaxf(most, v.shift);
  }
  // By a whole warp.
  __device__ bool too_wide() const {
    float low = least, high = most;
#pragma unroll
    for (int step = 1; step <= 16; step *= 2) {
      low = fminf(low, __shfl_xor_sync(0xffffffffu, low, step));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, step));
    }
    return high - low > kMostApart;
  }
};

// What all keys of a sequence are multiplied by; 1 where that differs from key to key.
__device__ inline float key_scale_of(const CodedParams& d, const Task& task) {
  return d.key_by_key != 0 ? 1.0f : tile::scale_at(d.mixed.coded.key, task.batch, task.pack_index, 0);
}
// The same of its values, in one column.
struct ColumnScales {
  const float* first = nullptr;  // null: 1
  long long channel = 0;
  int columns = 0;

  __device__ ColumnScales(const CodedParams& d, const Task& task) {
    const Scales& scales = d.mixed.coded.value;
    if (d.value_by_key != 0 || scales.data == nullptr) return;
    first = scales.data + scales.at(task.batch, task.pack_index, 0);
    channel = scales.channel;
    columns = d.problem.sizes.value_dim;
  }
  __device__ float of(int column) const {
    return first == nullptr || column >= columns ? 1.0f : first[column * channel];
  }
};

// Whether scores are only scaled and hidden by position.
__device__ inline bool plain(const Params& p) {
  return p.scoring.softcap == 0.0f && p.per_head.alibi_slopes == nullptr &&
         p.visibility.mask_kind == MaskTensorKind::none;
}

}  // namespace tessera::cuda::serving
