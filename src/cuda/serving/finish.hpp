// The ends of pieces and sequences: merged, left in the workspace, or divided and written.
#pragma once

#include "cuda/serving/params.hpp"
#include "cuda/serving/softmax.hpp"
#include "cuda/tile/careful.hpp"

namespace tessera::cuda::serving {

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

// The pieces of a sequence so far. Where there are no registers for O each thread has words of its own in
// memory, and a piece's O becomes the sum.
template <Config C>
struct Sum {
  static constexpr bool kInRegisters = C.sum_in == SumIn::registers;
  Rows<C> rows;
  float own[kInRegisters ? C.tile.row_tiles : 1][kInRegisters ? C.columns() / 8 : 1][4];
  float* memory;

  __device__ Sum(const ServingParams& d, char* shared) {
    rows.start();
    if constexpr (C.sum_in == SumIn::shared)
      memory = reinterpret_cast<float*>(shared + C.sum_offset()) + threadIdx.x;
    if constexpr (C.sum_in == SumIn::workspace)
      memory = d.sums + blockIdx.x * (C.rows() * C.tile.value_dim) + threadIdx.x;
    if constexpr (kInRegisters) for_each([&](int m, int n, int e) { own[m][n][e] = 0.0f; });
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
  __device__ float& word(int m, int n, int e) const {
    return memory[((m * (C.columns() / 8) + n) * 4 + e) * C.tile.threads()];
  }
  // o is the sum after it, if it is in memory. first, last: of the pieces that come in.
  __device__ void merge(const Rows<C>& more, Output<C>& o, bool first, bool last) {
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
    if constexpr (kInRegisters) {
      for_each([&](int m, int n, int e) { own[m][n][e] = merged(own[m][n][e], o[m][n][e], f[m][e / 2]); });
    } else {
      for_each([&](int m, int n, int e) {
        o[m][n][e] = merged(first ? 0.0f : word(m, n, e), o[m][n][e], f[m][e / 2]);
      });
      if (!last) for_each([&](int m, int n, int e) { word(m, n, e) = o[m][n][e]; });
    }
  }
  __device__ float at(const Output<C>& o, int m, int n, int e) const {
    if constexpr (kInRegisters) {
      return own[m][n][e];
    } else {
      return o[m][n][e];
    }
  }
};

// A slot: O of its rows, then row max and sum of each. `rows_left`: from the tile's first row on. `value`: of
// O.
template <Config C, class Value>
__device__ inline void store_partial(const ServingParams& d, int slot, const Rows<C>& rows,
                                     const Value& value, int rows_left, const Warp<C>& w) {
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

// What a row's keys come to; writes lse.
template <class T>
__device__ inline tile::RowEnd<T> end_row(const ServingParams& d, const tile::AnyView<T>& view,
                                          tile::RowIndex at, tile::SoftmaxState state,
                                          tile::MaskedFactor factor, bool writes_lse) {
  state.row_max = tile::usual_row_max(factor, state.row_max);
  const Params& p = d.problem;
  const tile::RowEnd<T> end(p, view, at, state, d.plain == 0);
  if (writes_lse) tile::write_lse(p, view, at, tile::log_sum_exp(p, view, at, end.state));
  return end;
}

// Divides and writes a thread's part of a whole sequence. Returns which of its rows, a bit each, hold NaN
// although their sums do not.
template <Config C, class T>
__device__ inline unsigned write_rows(const ServingParams& d, const tile::AnyView<T>& view, const Sum<C>& all,
                                      const Output<C>& o, tile::MaskedFactor factor, int first_row,
                                      const Warp<C>& w) {
  const Params& p = d.problem;
  unsigned suspects = 0;
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first_row + w.row_of(m, r);
      const bool there = row < view.rows;
      const tile::RowIndex at = view.index(there ? row : 0);
      const tile::RowEnd<T> end =
          end_row<T>(d, view, at, all.rows.tiles[m].of(r), factor, there && w.column() == 0);
      const tile::OutputRow<T> out(p, view, at);
      float check = 0.0f;
#pragma unroll
      for (int n = 0; n < C.columns() / 8; ++n) {
        const float x = end.output(all.at(o, m, n, 2 * r)), y = end.output(all.at(o, m, n, 2 * r + 1));
        check = fmaf(x, 0.0f, fmaf(y, 0.0f, check));  // NaN where x or y is not finite
        if (there) out.put_pair(w.column() + 8 * n, p.sizes.value_dim, x, y);
      }
      if (there && check != check && end.state.sum == end.state.sum) suspects |= 1u << w.row_of(m, r) % 16;
    }
  return suspects;
}

// The same where there are results over other keys to be taken in, a row after the other: through shared
// memory, which holds no tiles any more. Of the rows from the warp's number on, every kWarps-th.
template <Config C, class T>
__device__ inline unsigned write_rows_with_priors(const ServingParams& d, const tile::AnyView<T>& view,
                                                  const Sum<C>& all, const Output<C>& o,
                                                  tile::MaskedFactor factor, int first_row, char* memory,
                                                  const Warp<C>& w) {
  const Params& p = d.problem;
  constexpr int kColumns = C.tile.value_dim, kWarps = C.tile.warps();
  static_assert(C.rows() * (kColumns + 2) * 4 <= C.tile.query_bytes() + C.tile.ring_bytes());
  auto* const staged = reinterpret_cast<float*>(memory);
  __syncthreads();
  Sum<C>::for_each([&](int m, int n, int e) {
    staged[w.row_of(m, e / 2) * (kColumns + 2) + w.column() + 8 * n + e % 2] = all.at(o, m, n, e);
  });
#pragma unroll
  for (int i = 0; i < 2 * C.tile.row_tiles; ++i) {
    if (w.column() != 0) continue;
    float* const state = staged + w.row_of(i / 2, i % 2) * (kColumns + 2) + kColumns;
    state[0] = all.rows.tiles[i / 2].row_max[i % 2];
    state[1] = all.rows.tiles[i / 2].sum[i % 2];
  }
  __syncthreads();
  unsigned suspects = 0;
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / 32; row < min(C.rows(), view.rows - first_row);
       row += kWarps) {
    const float* const from = staged + row * (kColumns + 2);
    const tile::RowIndex at = view.index(first_row + row);
    const tile::RowEnd<T> end =
        end_row<T>(d, view, at, {from[kColumns], from[kColumns + 1]}, factor, w.lane == 0);
    const tile::OutputRow<T> out(p, view, at);
    float check = 0.0f;
#pragma unroll 1
    for (int d = w.lane; d < p.sizes.value_dim; d += 32) {
      float x[1] = {from[d]};
      end.finish(x, p.sizes.value_dim, [d](int) { return d; });
      check = fmaf(x[0], 0.0f, check);
      out.put(d, x[0]);
    }
    if (check != check && end.state.sum == end.state.sum) suspects |= 1u << row / kWarps;
  }
  return suspects;
}

// Divides and writes a whole sequence. Rows that hold NaN although their sums do not are computed again: see
// tile/careful.hpp. `suspects`: shared memory, a word for each row.
template <Config C, class T>
__device__ inline void finish_rows(const ServingParams& d, const tile::AnyView<T>& view, int pack_index,
                                   const Sum<C>& all, const Output<C>& o, tile::MaskedFactor factor,
                                   int first_row, char* memory, unsigned* suspects, const Warp<C>& w) {
  static_assert(C.tile.row_tiles == 1);
  const bool priors = d.plain == 0 && d.problem.priors.parts > 0;
  const unsigned bits = priors ? write_rows_with_priors<C, T>(d, view, all, o, factor, first_row, memory, w)
                               : write_rows<C, T>(d, view, all, o, factor, first_row, w);
  if (__syncthreads_or(static_cast<int>(bits)) == 0) return;
  constexpr int kWarps = C.tile.warps();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int row = static_cast<int>(threadIdx.x); row < C.rows(); row += C.tile.threads()) suspects[row] = 0;
  __syncthreads();
  for (unsigned left = bits; left != 0; left &= left - 1) {
    const int bit = __ffs(static_cast<int>(left)) - 1;
    suspects[priors ? warp + bit * kWarps : w.row + bit] = 1;
  }
  __syncthreads();
#pragma unroll 1
  for (int row = warp; row < C.rows(); row += kWarps)
    if (suspects[row] != 0)
      tile::careful_row<T, false, true>(d.problem, view.batch, pack_index, first_row + row);
}

}  // namespace tessera::cuda::serving
