// The end of a row: what is left to do when its sum is known, and O from registers to global memory. Every
// thread holds two rows, eight apart, and of every eight columns two; the four threads that share a row trade
// their words, so that each has 16 bytes of it to write.
#pragma once

#include <type_traits>

#include "cuda/ptx/global_store.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/tile/careful.hpp"

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

// The thread's two rows in global memory, and how they end.
template <class T>
struct RowEnds {
  T* out;  // the first row; the second is 8 rows on
  long long stride;
  int columns;
  bool there[2];
  float inverse[2];
  bool sound[2];                 // it is there, and its sum is not NaN
  unsigned check[2] = {0u, 0u};  // not 0 when something that is not finite was written

  __device__ RowEnds(const Params& p, const tile::BlockView<T>& view, int row, int head)
      : out(tile::output_row(p, view, {row, head})),
        stride(p.output_strides.row),
        columns(p.value_dim),
        there{row < p.queries, row + 8 < p.queries} {}

  // What the sum of row r says; the whole sum, in all four threads.
  __device__ void end(const Params& p, const tile::BlockView<T>& view, int row, int head, int r,
                      tile::SoftmaxState state, bool writes_lse) {
    float keep = 1.0f;
    if (p.sinks != nullptr) keep = tile::add_sink(state, p.sinks[head * p.sinks_stride]);
    inverse[r] = tile::inverse_sum(state) * keep;
    if (writes_lse && there[r]) tile::write_lse(p, view, {row + 8 * r, head}, tile::log_sum_exp(state));
    sound[r] = there[r] && state.sum == state.sum;
  }

  // 32 columns from first_column on: x[m] has columns 8 m + ... of the first row, then of the second. Of the
  // last 16 bytes of a row kPartial writes what belongs to it, where that is not all.
  template <bool kPartial>
  __device__ void write(const float4 (&x)[4], int first_column, int lane) {
    unsigned words[2][4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      words[0][m] = tile::pack<T>(x[m].x * inverse[0], x[m].y * inverse[0]);
      words[1][m] = tile::pack<T>(x[m].z * inverse[1], x[m].w * inverse[1]);
#pragma unroll
      for (int r = 0; r < 2; ++r) check[r] = tile::note_not_finite<T>(check[r], words[r][m]);
    }
    const int column = first_column + 8 * (lane % 4);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
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
  // Of kColumns columns from first_column on; columns_of(n) has columns 8 n + ... of them.
  template <int kColumns, class ColumnsOf>
  __device__ void write_all(int first_column, int lane, ColumnsOf columns_of) {
    const auto write_each = [&](auto partial) {
#pragma unroll
      for (int n = 0; n < kColumns / 8; n += 4) {
        const float4 x[4] = {columns_of(n), columns_of(n + 1), columns_of(n + 2), columns_of(n + 3)};
        write<partial.value>(x, first_column + 8 * n, lane);
      }
    };
    write_each(std::false_type{});
    if (columns % 8 != 0) write_each(std::true_type{});
  }

  // Something came out that is not finite although the sum is sound: see tile/careful.hpp.
  __device__ bool suspect() const { return (sound[0] && check[0] != 0) || (sound[1] && check[1] != 0); }
};

// rows: the sums of single threads. True if one of the warp's rows is suspect.
template <Config C, class T>
__device__ inline bool write_output(const Params& p, const Place& at, int first_row, Rows& rows,
                                    const Output<C>& o) {
  // The thread's number is read anew: what is made of it would take registers all through the loop.
  const int lane = ptx::thread_x() % 32, row = first_row + ptx::thread_x() % 128 / 32 * 16 + lane / 4;
  const tile::BlockView<T> view = tile::block_view<T>(p, at.batch, at.head);
  RowEnds<T> ends(p, view, row, at.head);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 1);
    rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 2);
    ends.end(p, view, row, at.head, r, {rows.reference[r], rows.sum[r]}, lane % 4 == 0);
  }
  ends.template write_all<C.value_dim>(
      0, lane, [&](int n) { return make_float4(o[4 * n], o[4 * n + 1], o[4 * n + 2], o[4 * n + 3]); });
  return __any_sync(0xffffffffu, ends.suspect());
}

// Rows [first, end) again, by one warp, where a NaN was written: see tile/careful.hpp. Rows in which a
// visible NaN was met stay what they are.
template <class T>
__device__ inline void recompute_suspects(const Params& p, const Place& at, int first, int end) {
  const int lane = ptx::thread_x() % 32;
  const tile::BlockView<T> view = tile::block_view<T>(p, at.batch, at.head);
  for (int row = first; row < min(end, p.queries); ++row) {
    const T* const out = tile::output_row(p, view, {row, at.head});
    bool suspect = false;
    for (int d = lane; d < p.value_dim; d += 32) suspect |= __hisnan(out[d]);
    if (__any_sync(0xffffffffu, suspect)) tile::careful_row<T>(p, at.batch, at.head, row);
  }
}

}  // namespace tessera::cuda::sm90
