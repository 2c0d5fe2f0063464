// The ends of pieces and sequences: merged, left in the workspace, or divided and written.
#pragma once

#include "cuda/serving/params.hpp"
#include "cuda/serving/shared.hpp"
#include "cuda/tile/careful.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::serving {

// A thread's place when a piece has ended: its first row of the tile's (the second is 8 behind it) and
// column.
template <Config C>
struct Spot {
  int lane, warp;

  __device__ Spot() : lane(thread<C>() % 32), warp(thread<C>() / 32) {}
  __device__ int row() const { return (C.few ? 0 : 16 * warp) + lane / 4; }
  // Its first column, and how far behind it its n-th pair is: of eight columns it has two, or, where products
  // are of codes as they come out of a register, of 16 four.
  static constexpr bool kFours = C.coded() && !C.keys_apart() && !C.wgmma;
  __device__ int column() const { return (C.few ? warp * C.columns() : 0) + (kFours ? 4 : 2) * (lane % 4); }
  __host__ __device__ static constexpr int behind(int n) { return kFours ? n / 2 * 16 + n % 2 * 2 : 8 * n; }
  __device__ bool first_column() const { return lane % 4 == 0 && (!C.few || warp == 0); }
};

template <Config C>
using Output = tile::Accumulator<C.columns()>;

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

// O of the pieces of a sequence so far: in shared memory, where each thread has its own words, or in
// registers.
template <Config C, bool kRegisters>
struct SumOf {
  static constexpr int kElements = 2 * C.thread_rows();  // of 8 columns
  tile::RowState rows = tile::empty_rows();
  float* shared;

  __device__ explicit SumOf(float* memory) : shared(memory + threadIdx.x) {}
  __device__ float& at(int n, int e) const { return shared[(kElements * n + e) * C.consumers()]; }
};
template <Config C>
struct SumOf<C, true> {
  static constexpr int kElements = 2 * C.thread_rows();
  tile::RowState rows = tile::empty_rows();
  Output<C> o;

  __device__ explicit SumOf(float*) {}
  __device__ float& at(int n, int e) { return o[n][e]; }
};

template <Config C>
struct Sum : SumOf<C, C.sum_in_registers> {
  using Base = SumOf<C, C.sum_in_registers>;
  using Base::at, Base::kElements, Base::rows;

  __device__ explicit Sum(float* memory) : Base(memory) {
    for_each([&](int n, int e) { at(n, e) = 0.0f; });
  }
  template <class F>
  __device__ static void for_each(const F& f) {
#pragma unroll
    for (int n = 0; n < C.columns() / 8; ++n)
#pragma unroll
      for (int e = 0; e < kElements; ++e) f(n, e);
  }
  __device__ void merge(const tile::RowState& more, const Output<C>& o) {
    tile::MergeFactors f[C.thread_rows()];
#pragma unroll
    for (int r = 0; r < C.thread_rows(); ++r) {
      tile::SoftmaxState state = rows.of(r);
      f[r] = merge_state(state, more.of(r));
      rows.row_max[r] = state.row_max;
      rows.sum[r] = state.sum;
    }
    for_each([&](int n, int e) { at(n, e) = merged(at(n, e), o[n][e], f[e / 2]); });
  }
};

// A slot: O of its rows, then row max and sum of each. `rows_left`: from the tile's first row on. value(n,
// e): of O.
template <Config C, class Value>
__device__ inline void store_partial(const ServingParams& d, int slot, const tile::RowState& rows,
                                     const Value& value, int rows_left) {
  constexpr int kColumns = C.value_dim;
  const Spot<C> spot;
  float* const to = d.partials + slot * slot_floats(d.slot_rows, kColumns);
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) {
    const int row = spot.row() + 8 * r;
    if (row >= rows_left) continue;
    float* const columns = to + row * kColumns + spot.column();
#pragma unroll
    for (int n = 0; n < C.columns() / 8; ++n)
      *reinterpret_cast<float2*>(columns + Spot<C>::behind(n)) =
          make_float2(value(n, 2 * r), value(n, 2 * r + 1));
    if (spot.first_column())
      *reinterpret_cast<float2*>(to + d.slot_rows * kColumns + 2 * row) =
          make_float2(rows.row_max[r], rows.sum[r]);
  }
}

// What a row's keys come to; writes lse. kOptions: there may be results over other keys, and the row max may
// be of another unit (tile::MaskedFactor), unless it is an exponent.
template <bool kOptions, class T>
__device__ inline tile::RowEnd<T> end_row(const Params& p, const tile::AnyView<T>& view, tile::RowIndex at,
                                          tile::SoftmaxState state, bool exponents, bool writes_lse) {
  if (kOptions && !exponents)
    state.row_max = tile::usual_row_max(tile::MaskedFactor{p.units.factor}, state.row_max);
  const tile::RowEnd<T> end(p, view, at, state, kOptions);
  if (writes_lse)
    tile::write_lse(p, view, at,
                    kOptions ? tile::log_sum_exp(p, view, at, end.state) : tile::log_sum_exp(end.state));
  return end;
}

// The same of any output: of T or f32, and beside codes of f16.
template <Config C, class T>
__device__ inline void put_pair(const ServingParams& d, const tile::OutputRow<T>& row, int column, float x,
                                float y) {
  const int columns = d.problem.sizes.value_dim;
  if constexpr (C.coded()) {
    if (static_cast<const CodedParams&>(d).mixed.coded.output == OutputKind::f16) {
      __half* const to = static_cast<__half*>(row.row) + column;
      if (column < columns) to[0] = tile::from_float<__half>(x);
      if (column + 1 < columns) to[1] = tile::from_float<__half>(y);
      return;
    }
  }
  row.put_pair(column, columns, x, y);
}

// Columns d and d + 1 of a row, in pairs throughout.
template <class T>
__device__ inline void store_pair(const tile::OutputRow<T>& row, int d, float x, float y) {
  if (row.f32) {
    *reinterpret_cast<float2*>(static_cast<float*>(row.row) + d) = make_float2(x, y);
  } else {
    *reinterpret_cast<unsigned*>(static_cast<T*>(row.row) + d) = tile::pack<T>(x, y);
  }
}

// Divides and writes a thread's part of a whole sequence. Returns which of its rows, a bit each, hold NaN
// although their sums do not; of codes, whatever their sums are (coded_query.hpp). kOptions: any output, and
// results over other keys.
template <Config C, class T, bool kOptions>
__device__ inline unsigned write_rows(const ServingParams& d, const tile::AnyView<T>& view, Sum<C>& all,
                                      int first_row) {
  const Params& p = d.problem;
  const Spot<C> spot;
  unsigned suspects = 0;
#pragma unroll
  for (int r = 0; r < C.thread_rows(); ++r) {
    const int row = first_row + spot.row() + 8 * r;
    if (row >= view.rows) continue;
    const tile::RowIndex at = view.index(row);
    const tile::RowEnd<T> end =
        end_row<kOptions>(p, view, at, all.rows.of(r), C.exponents(), spot.first_column());
    const tile::OutputRow<T> out(p, view, at);
    float check = 0.0f;
#pragma unroll(kOptions && !C.sum_in_registers ? 1 : C.columns() / 8)
    for (int n = 0; n < C.columns() / 8; ++n) {
      const int column = spot.column() + Spot<C>::behind(n);
      float x[2] = {all.at(n, 2 * r), all.at(n, 2 * r + 1)};
      if (kOptions && p.priors.parts > 0) {
        end.finish(x, p.sizes.value_dim, [column](int i) { return column + i; });
      } else {
        x[0] = end.output(x[0]), x[1] = end.output(x[1]);
      }
      check = fmaf(x[0], 0.0f, fmaf(x[1], 0.0f, check));  // NaN where one is not finite
      if constexpr (kOptions) {
        put_pair<C>(d, out, column, x[0], x[1]);
      } else if (column < p.sizes.value_dim) {
        store_pair(out, column, x[0], x[1]);
      }
    }
    if (check != check && (C.coded() || end.state.sum == end.state.sum))
      suspects |= 1u << (spot.row() % 16 + 8 * r);
  }
  return suspects;
}

}  // namespace tessera::cuda::serving
