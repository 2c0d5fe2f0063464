// The end of a row where everything of the interface may meet it: results over other keys (priors), a sink,
// and an output of either type.
#pragma once

#include "cuda/tile/element.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::tile {

// The priors of one row.
struct PriorRow {
  const Params& p;
  long long first, first_lse;  // where part 0's output and lse are

  template <class T>
  __device__ PriorRow(const Params& params, const AnyView<T>& v, RowIndex at)
      : p(params),
        first(at.head * p.priors.strides.head + (v.first_query + at.query) * p.priors.strides.row),
        first_lse(at.head * p.priors.lse_strides.head +
                  (v.first_query + at.query) * p.priors.lse_strides.row) {}

  // The exponent of 2 that part n's result counts with; finite stays finite.
  __device__ float exponent(int n) const {
    const float lse = p.priors.lse[n * p.priors.lse_strides.batch + first_lse], e = lse * kLog2E;
    if (e < kLowest && lse >= kLowest) return kLowest;
    return e > -kLowest && lse <= -kLowest ? -kLowest : e;
  }
  // All parts join the sum; what was summed so far is to be multiplied by what this returns.
  __device__ float join(SoftmaxState& state) const {
    float keep = 1.0f;
    for (int n = 0; n < p.priors.parts; ++n) {
      const float e = exponent(n);
      if (e == minus_infinity()) continue;
      keep *= raise_row_max(state, e);
      state.sum += ptx::exp2_approx(e - state.row_max);
    }
    return keep;
  }
  // f(weight, column d -> value) for each part that counts, given the whole row's state.
  template <class T, class F>
  __device__ void for_each(const SoftmaxState& state, const F& f) const {
#pragma unroll 1
    for (int n = 0; n < p.priors.parts; ++n) {
      const float e = exponent(n);
      if (e == minus_infinity()) continue;  // whatever its output holds
      const long long at = n * p.priors.strides.batch + first;
      f(ptx::exp2_approx(e - state.row_max), [&](int d) {
        return p.priors.f32 != 0 ? static_cast<const float*>(p.priors.data)[at + d]
                                 : to_float(static_cast<const T*>(p.priors.data)[at + d]);
      });
    }
  }
};

// Where a row's sums have come to an end: what its output is made of.
template <class T>
struct RowEnd {
  PriorRow priors;
  SoftmaxState state;  // priors and sink included
  float keep;          // of what the keys summed up
  float inverse;

  __device__ RowEnd(const Params& p, const AnyView<T>& v, RowIndex at, const SoftmaxState& of_keys,
                    bool may_have_priors = true)
      : priors(p, v, at), state(of_keys), keep(1.0f) {
    if (may_have_priors && p.priors.parts > 0) keep = priors.join(state);
    keep *= join_sink(p, at.head, state);
    inverse = inverse_sum(state);
  }
  // x: the sum over the keys, in one column of a row without priors.
  __device__ float output(float x) const { return x * (inverse * keep); }
  // In several columns of any row: column_of(i) < columns is x[i]'s.
  template <int kCount, class ColumnOf>
  __device__ void finish(float (&x)[kCount], int columns, const ColumnOf& column_of) const {
    const bool all = priors.p.priors.parts == 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = all ? output(x[i]) : x[i] * keep;
    if (all) return;
    priors.template for_each<T>(state, [&](float weight, const auto& value) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        if (column_of(i) < columns) x[i] = fmaf(value(column_of(i)), weight, x[i]);
    });
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] *= inverse;
  }
};

// A row of the output, of T or f32.
template <class T>
struct OutputRow {
  void* row;
  bool f32;

  __device__ OutputRow(const Params& p, const AnyView<T>& v, RowIndex at)
      : f32(sizeof(T) == 2 && p.output.f32 != 0) {
    const long long offset = at.head * p.output.strides.head + at.query * p.output.strides.row;
    row = f32 ? static_cast<void*>(reinterpret_cast<float*>(v.output) + offset) : v.output + offset;
  }
  __device__ void put(int d, float x) const {
    if (f32) {
      static_cast<float*>(row)[d] = x;
    } else {
      static_cast<T*>(row)[d] = from_float<T>(x);
    }
  }
  // Two neighbouring columns, as many as there are.
  __device__ void put_pair(int d, int columns, float x, float y) const {
    if constexpr (sizeof(T) == 2) {
      T* const to = static_cast<T*>(row) + d;
      if (!f32 && d + 1 < columns && reinterpret_cast<unsigned long long>(to) % 4 == 0) {
        *reinterpret_cast<unsigned*>(to) = pack<T>(x, y);
        return;
      }
    }
    if (d < columns) put(d, x);
    if (d + 1 < columns) put(d + 1, y);
  }
};

// Rows that no entry owns, as a batch padded to a bucket has them: output 0, lse -inf. Shared by all warps of
// a grid of one dimension.
template <class T>
__device__ inline void clear_unowned_rows(const Params& p, int warp, int warps) {
  if (p.query_offsets.data == nullptr) return;
  const int begin = AnySequence{p, 0}.first_query(), end = AnySequence{p, p.sizes.batch}.first_query();
  const int before = min(begin, end), unowned = before + p.sizes.queries - end;
  const int lane = static_cast<int>(threadIdx.x) % 32, width = min(static_cast<int>(blockDim.x), 32);
#pragma unroll 1
  for (int n = warp; n < unowned; n += warps) {
    const AnyView<T> view = {.output = static_cast<T*>(p.output.data), .lse = p.output.lse};
#pragma unroll 1
    for (int head = 0; head < p.sizes.heads; ++head) {
      const RowIndex at = {n < before ? n : n - before + end, head};
      const OutputRow<T> out(p, view, at);
#pragma unroll 1
      for (int d = lane; d < p.sizes.value_dim; d += width) out.put(d, 0.0f);
      if (lane == 0) write_lse(p, view, at, minus_infinity());
    }
  }
}
// By all of a grid's.
template <class T>
__device__ inline void clear_unowned_rows(const Params& p) {
  const int warps = static_cast<int>(blockDim.x + 31) / 32;
  clear_unowned_rows<T>(p, static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / 32,
                        static_cast<int>(gridDim.x) * warps);
}

}  // namespace tessera::cuda::tile
