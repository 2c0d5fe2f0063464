// The end of a row: what is left to do when its sum is known, and O from registers to global memory. A thread
// holds two rows, eight apart (or one), and of every eight columns two; the four threads that share a row
// trade their words, so that each has 16 bytes of it to write.
#pragma once

#include "cuda/ptx/global_store.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/entry_task.hpp"
#include "cuda/sm90/fragments.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/tile/careful.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm90 {

// Word m of thread i of a quad becomes word i of thread m.
__device__ inline void transpose_quad(unsigned (&words)[4], int lane) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool odd = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int low = step == 1 ? 2 * i : i, high = low + step;
      const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? words[low] : words[high], step);
      if (odd) {
        words[low] = got;
      } else {
        words[high] = got;
      }
    }
  }
}

// Two columns of each of a thread's rows.
template <int kRows>
struct alignas(8 * kRows) Pairs {
  float2 of[kRows];
};
template <int kRows, int kGroups>
__device__ inline Pairs<kRows> pairs_of(const float (&o)[kGroups][4], int n) {
  Pairs<kRows> x;
#pragma unroll
  for (int r = 0; r < kRows; ++r) x.of[r] = make_float2(o[n][2 * r], o[n][2 * r + 1]);
  return x;
}

// A thread's rows in global memory, 8 apart, and how they end.
template <class T, int kRows>
struct RowEnds {
  T* out;  // the first row
  long long stride;
  int columns;
  bool there[kRows];
  float inverse[kRows];
  bool sound[kRows];           // it is there, and its sum is not NaN
  unsigned check[kRows] = {};  // not 0 when something that is not finite was written

  __device__ RowEnds(const Params& p, const tile::BlockView<T>& view, int row, int head)
      : RowEnds(p, view, row, head, tile::Sequence{p, view.batch}.queries()) {}
  // Of an entry with so many rows.
  __device__ RowEnds(const Params& p, const tile::BlockView<T>& view, int row, int head, int queries)
      : out(tile::output_row(p, view, {row, head})),
        stride(p.output.strides.row),
        columns(p.sizes.value_dim) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) there[r] = row + 8 * r < queries;
  }

  // What the rows' whole sums say. Both rows at once: their steps, of which each waits for the one before,
  // run side by side.
  __device__ void end(const Params& p, int head, tile::SoftmaxState (&state)[kRows]) {
    float keep[kRows];
    tile::join_sink(p, head, state, keep);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      inverse[r] = tile::fast_inverse_sum(state[r]) * keep[r];
      sound[r] = there[r] && state[r].sum == state[r].sum;
    }
  }
  __device__ void write_lse(const Params& p, const tile::BlockView<T>& view, int row, int head,
                            const tile::SoftmaxState (&state)[kRows]) const {
    if (view.lse == nullptr) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (there[r]) tile::write_lse(p, view, {row + 8 * r, head}, tile::log_sum_exp(state[r]));
  }
  // With a mask tensor: what was written is not yet a row's lse.
  __device__ bool low(const Params& p, const tile::BlockView<T>& view,
                      const tile::SoftmaxState (&state)[kRows]) const {
    bool any = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      any |= there[r] && state[r].sum > 0.0f && tile::is_low(p, state[r].row_max);
    return view.lse != nullptr && any;
  }

  // 32 columns from first_column on: x[m] has columns 8 m + .... Of the last 16 bytes of a row kPartial
  // writes what belongs to it, where that is not all.
  template <bool kPartial>
  __device__ void write(const Pairs<kRows> (&x)[4], int first_column, int lane) {
    const int column = first_column + 8 * (lane % 4);
    unsigned words[kRows][4];
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        words[r][m] = tile::pack<T>(x[m].of[r].x, x[m].of[r].y);
        check[r] = tile::note_not_finite<T>(check[r], words[r][m]);
      }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      transpose_quad(words[r], lane);
      T* const to = out + 8 * r * stride + column;
      if constexpr (!kPartial) {
        if (there[r] && column + 8 <= columns)
          ptx::store_words(to, words[r][0], words[r][1], words[r][2], words[r][3]);
      } else if (there[r] && column < columns && column + 8 > columns) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
          if (column + i < columns)
            reinterpret_cast<unsigned short*>(to)[i] =
                static_cast<unsigned short>(words[r][i / 2] >> 16 * (i % 2));
      }
    }
  }
  // Of kColumns columns from first_column on; columns_of(n) has columns 8 n + ... of them, as they are to be
  // written.
  template <int kColumns, class ColumnsOf>
  __device__ void write_all(int first_column, int lane, ColumnsOf columns_of) {
    const auto write_each = [&]<bool kPartial>() {
#pragma unroll
      for (int n = 0; n < kColumns / 8; n += 4) {
        Pairs<kRows> x[4] = {};
#pragma unroll
        for (int m = 0; m < 4 && n + m < kColumns / 8; ++m) x[m] = columns_of(n + m);
        write<kPartial>(x, first_column + 8 * n, lane);
      }
    };
    write_each.template operator()<false>();
    if (columns % 8 != 0) write_each.template operator()<true>();
  }

  // Something came out that is not finite although the sum is sound: see tile/careful.hpp.
  __device__ bool suspect() const {
    bool any = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) any |= sound[r] && check[r] != 0;
    return any;
  }
};

// V has none.
struct NoScales {
  __device__ static float all() { return 1.0f; }
  __device__ static float2 of(int) { return make_float2(1.0f, 1.0f); }
};

// rows: the sums of single threads. True if one of the warp's rows is suspect; of codes, whatever its sum is
// (widened.hpp).
template <Config C, class T, class ColumnScales = NoScales>
__device__ inline bool write_rows(const Params& p, const tile::BlockView<T>& view, RowEnds<T, 2>& ends,
                                  int lane, int row, int head, tile::RowState& rows, const Output<C>& o,
                                  const ColumnScales& scales = {}) {
  tile::join_sums(rows);
  if constexpr (C.mask_bytes > 0) tile::end_row_max(rows, {p.units.factor});
  tile::SoftmaxState state[2] = {rows.of(0), rows.of(1)};
  ends.end(p, head, state);
  if constexpr (C.widens()) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      ends.inverse[r] *= scales.all();
      ends.sound[r] = ends.there[r];
    }
  }
  if (lane % 4 == 0) ends.write_lse(p, view, row, head, state);
  const bool low = C.mask_bytes > 0 && ends.low(p, view, state);
  ends.template write_all<C.value_dim>(0, lane, [&](int n) {
    Pairs<2> x = pairs_of<2>(o, n);
#pragma unroll
    for (int r = 0; r < 2; ++r)
      x.of[r] = make_float2(x.of[r].x * ends.inverse[r], x.of[r].y * ends.inverse[r]);
    if constexpr (C.widens()) {
      const float2 of_columns = scales.of(n);
#pragma unroll
      for (int r = 0; r < 2; ++r) x.of[r] = make_float2(x.of[r].x * of_columns.x, x.of[r].y * of_columns.y);
    }
    return x;
  });
  return __any_sync(0xffffffffu, ends.suspect() || low);
}

// The thread's number is read anew: what is made of it would take registers all through the loop.
template <Config C, class T>
__device__ inline bool write_output(const Params& p, const TileIndex& at, int first_row, tile::RowState& rows,
                                    const Output<C>& o) {
  const int lane = ptx::thread_x() % 32, row = first_row + ptx::thread_x() % 128 / 32 * 16 + lane / 4;
  const tile::BlockView<T> view = tile::block_view<T>(p, at.batch, at.head);
  RowEnds<T, 2> ends(p, view, row, at.head);
  return write_rows<C, T>(p, view, ends, lane, row, at.head, rows, o);
}
// Of a ragged or paged batch.
template <Config C, class T, class ColumnScales = NoScales>
__device__ inline bool write_entry(const Params& p, const EntryTask& task, int first_row,
                                   tile::RowState& rows, const Output<C>& o,
                                   const ColumnScales& scales = {}) {
  const int lane = ptx::thread_x() % 32, row = first_row + ptx::thread_x() % 128 / 32 * 16 + lane / 4;
  tile::BlockView<T> view = {};
  view.output = static_cast<T*>(p.output.data) + task.at.batch * p.output.strides.batch +
                task.first_query * p.output.strides.row;
  if (p.output.lse != nullptr)
    view.lse = p.output.lse + task.at.batch * p.output.lse_strides.batch +
               task.first_query * p.output.lse_strides.row;
  RowEnds<T, 2> ends(p, view, row, task.at.head, task.queries);
  return write_rows<C, T>(p, view, ends, lane, row, task.at.head, rows, o, scales);
}

// The lse of a row, by one warp, where it is not yet what it should be (tile/score.hpp).
template <class T>
__device__ inline void correct_low_lse(const Params& p, const tile::BlockView<T>& view, tile::RowIndex at) {
  const float lse = view.lse[at.head * p.output.lse_strides.head + at.query * p.output.lse_strides.row];
  if (!tile::is_low(p, lse)) return;
  const int lane = ptx::thread_x() % 32;
  float largest = tile::largest_additive(p, view, at, lane, 32);
  for (int step = 16; step > 0; step /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  if (lane == 0) tile::write_lse(p, view, at, largest);
}

// f(row) for each of rows [first, end) where a NaN was written; by one warp.
template <class T, bool kEntries, class F>
__device__ inline void for_suspects(const Params& p, const TileIndex& at, int first, int end, const F& f) {
  const int lane = ptx::thread_x() % 32;
  const auto view = tile::block_view<T, kEntries>(p, at.batch, at.head);
  const tile::SequenceOf<kEntries> sequence{p, at.batch};
  for (int row = first; row < min(end, sequence.queries()); ++row) {
    const T* const out = tile::output_row(p, view, {row, at.head});
    bool suspect = false;
    for (int d = lane; d < p.sizes.value_dim; d += 32) suspect |= __hisnan(out[d]);
    if (__any_sync(0xffffffffu, suspect)) f(row);
  }
}

// Those rows again: see tile/careful.hpp. Rows in which a visible NaN was met stay what they are.
template <class T, bool kMaskTensor = false, bool kEntries = false>
__device__ inline void recompute_suspects(const Params& p, const TileIndex& at, int first, int end) {
  for_suspects<T, kEntries>(
      p, at, first, end, [&](int row) { tile::careful_row<T, false, kEntries>(p, at.batch, at.head, row); });
  if constexpr (kMaskTensor) {
    const auto view = tile::block_view<T, kEntries>(p, at.batch, at.head);
    if (view.lse == nullptr) return;
    for (int row = first; row < min(end, tile::SequenceOf<kEntries>{p, at.batch}.queries()); ++row)
      correct_low_lse(p, view, {row, at.head});
  }
}

}  // namespace tessera::cuda::sm90
