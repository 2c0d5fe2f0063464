// One output row, computed by one warp with plain arithmetic: the way out when a row of a tensor-core kernel
// came out NaN although its softmax did not. That happens when a hidden key (P = 0) has NaN or inf in its
// value row: 0 * inf is NaN in a matrix product, but a hidden key must contribute nothing. Checking every
// value beforehand would cost every call; checking the result costs almost nothing, and this is slow but
// rare.
#pragma once

#include "cuda/tile/element.hpp"
#include "cuda/tile/row_end.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::tile {

// Columns of a row that one warp takes at a time; rows of more are computed in parts, as they were in the
// first place.
inline constexpr int kCarefulColumns = 256;

// What is read of the tensors for one query row.
template <class T, bool kAnywhere>
struct StoredRows {
  const Params& p;
  const BlockView<T, kAnywhere>& v;
  const T* query;

  __device__ StoredRows(const Params& params, const BlockView<T, kAnywhere>& view, RowIndex at)
      : p(params), v(view), query(query_row(p, v, at)) {}
  __device__ static void put(const OutputRow<T>& out, int d, float x) { out.put(d, x); }
  // The part of a dot product that `lane` has, and what the whole of it is multiplied by.
  __device__ float dot(int j, int lane) const {
    const T* const key = key_row(p, v, j);
    float sum = 0.0f;
    for (int d = lane; d < p.sizes.dim; d += 32) sum = fmaf(to_float(query[d]), to_float(key[d]), sum);
    return sum;
  }
  __device__ static float scale(int) { return 1.0f; }
  __device__ auto values(int j) const {
    return [value = value_row(p, v, j)](int d) { return to_float(value[d]); };
  }
};

// kLse: it may have come out NaN too. kAnywhere: it may end as row_end.hpp says. rows_of(v, at): what is
// read, as StoredRows.
template <class T, bool kLse, bool kAnywhere, class RowsOf>
__device__ inline void careful_row_of(const Params& p, int batch, int pack_index, int row, int first_column,
                                      const RowsOf& rows_of) {
  const BlockView<T, kAnywhere> v = block_view<T, kAnywhere>(p, batch, pack_index);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const RowIndex at = v.index(row);
  const OptionScores score_of(p, v, at);
  const auto rows = rows_of(v, at);
  const KeyRange range = key_range(v.band, at.query, at.query);
  SoftmaxState state = empty_softmax();
  float acc[kCarefulColumns / 32] = {};

  for (int j = range.begin; j < range.end; ++j) {
    float dot = rows.dot(j, lane);
    for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
    const float score = score_of(p, v.band, j, dot * rows.scale(j));
    if (score == minus_infinity()) continue;
    const float keep = raise_row_max(state, score);
    const float prob = ptx::exp2_approx(score - state.row_max);
    state.sum += prob;
    const auto value = rows.values(j);
#pragma unroll
    for (int i = 0; i < kCarefulColumns / 32; ++i) {
      const int d = first_column + lane + 32 * i;
      if (d < p.sizes.value_dim) acc[i] = fmaf(prob, value(d), acc[i] * keep);
    }
  }
  const auto write = [&](const auto& put) {
#pragma unroll
    for (int i = 0; i < kCarefulColumns / 32; ++i) {
      const int d = first_column + lane + 32 * i;
      if (d < p.sizes.value_dim) put(d, acc[i]);
    }
  };
  if constexpr (kAnywhere) {
    const RowEnd<T> end(p, v, at, state);
    const OutputRow<T> out(p, v, at);
    end.finish(acc, p.sizes.value_dim, [&](int i) { return first_column + lane + 32 * i; });
    write([&](int d, float x) { rows.put(out, d, x); });
    state = end.state;
  } else {
    const float keep = join_sink(p, at.head, state);
    const float inverse = inverse_sum(state) * keep;
    T* const out = output_row(p, v, at);
    write([&](int d, float x) { out[d] = from_float<T>(x * inverse); });
  }
  if constexpr (kLse) {
    if (lane == 0) write_lse(p, v, at, log_sum_exp(p, v, at, state));
  }
}
template <class T, bool kLse = false, bool kAnywhere = false>
__device__ inline void careful_row(const Params& p, int batch, int pack_index, int row,
                                   int first_column = 0) {
  careful_row_of<T, kLse, kAnywhere>(
      p, batch, pack_index, row, first_column,
      [&](const auto& v, RowIndex at) { return StoredRows<T, kAnywhere>(p, v, at); });
}

}  // namespace tessera::cuda::tile
