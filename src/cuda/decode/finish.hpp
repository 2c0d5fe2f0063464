// The ends of pieces and sequences: merged, left in the workspace, or divided and written.
#pragma once

#include "cuda/decode/params.hpp"
#include "cuda/decode/softmax.hpp"
#include "cuda/tile/careful.hpp"

namespace tessera::cuda::decode {

// A thread's part of O: its warp's columns.
template <Config C>
using Output = tile::Accumulator<C.columns()>[C.tile.row_tiles];

template <Config C>
__device__ inline void clear_output(Output<C>& o) {
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m) tile::clear(o[m]);
}

// One step of merging, the same bits wherever it is done.
__device__ inline float merged(float so_far, float more, const tile::MergeFactors& f) {
  return fmaf(so_far, f.first, __fmul_rn(more, f.second));
}
__device__ inline tile::MergeFactors merge_state(tile::SoftmaxState& into, const tile::SoftmaxState& more) {
  const float sum = into.sum;
  const tile::MergeFactors f = tile::merge(into, more);
  into.sum = merged(sum, more.sum, f);
  return f;
}

// The pieces of a sequence so far. O is in registers or in shared memory, where each thread has its own
// words.
template <Config C>
struct Sum {
  Rows<C> rows;
  float own[C.sum_in_shared ? 1 : C.tile.row_tiles][C.sum_in_shared ? 1 : C.columns() / 8][4];
  float* shared;

  __device__ float& at(int m, int n, int e) {
    if constexpr (C.sum_in_shared) {
      return shared[((m * (C.columns() / 8) + n) * 4 + e) * C.tile.threads()];
    } else {
      return own[m][n][e];
    }
  }
  __device__ explicit Sum(char* memory)
      : shared(reinterpret_cast<float*>(memory + C.sum_offset()) + threadIdx.x) {
    rows.start();
    for_each([&](int m, int n, int e) { at(m, n, e) = 0.0f; });
  }
  template <class F>
  __device__ static void for_each(const F& f) {
#pragma unroll
    for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
      for (int n = 0; n < C.columns() / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) f(m, n, e);
  }
  __device__ void merge(const Rows<C>& more, const Output<C>& o) {
    tile::MergeFactors f[C.tile.row_tiles][2];
#pragma unroll
    for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        tile::SoftmaxState state = rows.tiles[m].of(r);
        f[m][r] = merge_state(state, more.tiles[m].of(r));
        rows.tiles[m].row_max[r] = state.row_max;
        rows.tiles[m].sum[r] = state.sum;
      }
    for_each([&](int m, int n, int e) { at(m, n, e) = merged(at(m, n, e), o[m][n][e], f[m][e / 2]); });
  }
};

// A slot: O of its rows, then row max and sum of each. `rows_left`: from the tile's first row on. `value`: of
// O.
template <Config C, class Value>
__device__ inline void store_partial(const DecodeParams& d, int slot, const Rows<C>& rows, const Value& value,
                                     int rows_left, const Warp<C>& w) {
  constexpr int kColumns = C.tile.value_dim;
  float* const to = d.partials + slot * slot_floats(d.slot_rows, kColumns);
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = w.row_of(m, r);
      if (row >= rows_left) continue;
      float* const columns = to + row * kColumns + w.column();
#pragma unroll
      for (int n = 0; n < C.columns() / 8; ++n)
        *reinterpret_cast<float2*>(columns + 8 * n) = make_float2(value(m, n, 2 * r), value(m, n, 2 * r + 1));
      if (w.column() == 0)
        *reinterpret_cast<float2*>(to + d.slot_rows * kColumns + 2 * row) =
            make_float2(rows.tiles[m].row_max[r], rows.tiles[m].sum[r]);
    }
}

// Two neighbouring columns of a row, as many as there are.
template <class T>
__device__ inline void write_pair(T* row, int column, int columns, float x, float y) {
  if (column + 1 < columns && reinterpret_cast<unsigned long long>(row + column) % 4 == 0) {
    *reinterpret_cast<unsigned*>(row + column) = tile::pack<T>(x, y);
    return;
  }
  if (column < columns) row[column] = tile::from_float<T>(x);
  if (column + 1 < columns) row[column + 1] = tile::from_float<T>(y);
}

// What a row's sums come to: O times `inverse` is the output.
struct RowEnd {
  float inverse, sum;
};
template <class T>
__device__ inline RowEnd end_row(const Params& p, const tile::BlockView<T>& view, tile::RowIndex at,
                                 tile::SoftmaxState state, tile::MaskedFactor factor, bool writes_lse) {
  state.row_max = tile::usual_row_max(factor, state.row_max);
  const float keep = tile::join_sink(p, at.head, state);
  if (writes_lse) tile::write_lse(p, view, at, tile::log_sum_exp(p, view, at, state));
  return {tile::inverse_sum(state) * keep, state.sum};
}

// Divides and writes a whole sequence. Rows that hold NaN although their sums do not are computed again: see
// tile/careful.hpp. `suspects`: shared memory, a word for each warp.
template <Config C, class T>
__device__ inline void finish_rows(const Params& p, const tile::BlockView<T>& view, int pack_index,
                                   Sum<C>& all, tile::MaskedFactor factor, int first_row, unsigned* suspects,
                                   const Warp<C>& w) {
  static_assert(C.tile.row_tiles <= 2, "a bit of a word for each row of a warp");
  unsigned bits = 0;
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first_row + w.row_of(m, r);
      const bool there = row < view.rows;
      const tile::RowIndex at = view.index(there ? row : 0);
      const RowEnd end = end_row(p, view, at, all.rows.tiles[m].of(r), factor, there && w.column() == 0);
      float check = 0.0f;
#pragma unroll
      for (int n = 0; n < C.columns() / 8; ++n) {
        const float x = all.at(m, n, 2 * r) * end.inverse, y = all.at(m, n, 2 * r + 1) * end.inverse;
        check = fmaf(x, 0.0f, fmaf(y, 0.0f, check));  // NaN where x or y is not finite
        if (there) write_pair(tile::output_row(p, view, at), w.column() + 8 * n, p.sizes.value_dim, x, y);
      }
      if (there && check != check && end.sum == end.sum) bits |= 1u << sm80::thread_row(w.lane, m, r);
    }
  bits = __reduce_or_sync(0xffffffffu, bits);
  if (__syncthreads_or(static_cast<int>(bits)) == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (w.lane == 0) suspects[warp] = bits;
  __syncthreads();
  for (int row = w.split; row < 16 * C.tile.row_tiles; row += C.tile.key_splits) {
    unsigned word = 0;
#pragma unroll
    for (int split = 0; split < C.tile.key_splits; ++split)
      word |= suspects[warp % C.tile.row_warps + split * C.tile.row_warps];
    if ((word >> row & 1u) != 0) tile::careful_row<T>(p, view.batch, pack_index, first_row + w.row + row);
  }
}

}  // namespace tessera::cuda::decode
