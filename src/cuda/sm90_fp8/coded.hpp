// What consumers of 8-bit inputs do in their own way: scales, and rows whose output is of another type.
#pragma once

#include "cuda/ptx/global_store.hpp"
#include "cuda/sm90/consumer.hpp"
#include "cuda/sm90/epilogue.hpp"
#include "cuda/sm90/sequence_scales.hpp"
#include "cuda/sm90_fp8/params.hpp"
#include "cuda/tile/coded_rows.hpp"

namespace tessera::cuda::sm90 {

template <class T>
struct KeyElement<Codes::e4m3, T> {
  using Type = ptx::E4m3;
};
template <class T>
struct KeyElement<Codes::e5m2, T> {
  using Type = ptx::E5m2;
};
template <Codes kCodes>
using CodeOf = typename KeyElement<kCodes, void>::Type;

template <Config C>
__device__ inline const Coded& coded_of(const Sm90Params& p) {
  if constexpr (C.mask_bytes > 0) return static_cast<const CodedMaskParams&>(p).coded;
  return static_cast<const CodedParams&>(p).coded;
}

// Scores are dot products of codes. kEveryTile: they become those of what the codes stand for in scale_coded;
// else they are exponents of 2 with this. A factor of 0 would make NaN of the -inf of a hidden key; one below
// turns a row's largest score into its smallest: all comes out NaN, and is computed again.
template <Config C, bool kEveryTile>
__device__ inline float coded_factor(const Sm90Params& p, const TileIndex& at, int first_row) {
  const Coded& coded = coded_of<C>(p);
  float factor = tile::scale_at(coded.query, at.batch, at.head, first_row);
  if (!coded.key.by_block()) factor *= tile::scale_at(coded.key, at.batch, p.group.divide(at.head), 0);
  return kEveryTile ? factor : exponent_factor(p.problem.scoring.scale_log2 * factor);
}

// Key tiles are of 64 keys or 128, and so are blocks.
template <Config C>
__device__ inline void scale_coded(Scores<C>& s, const Sm90Params& p, const TileIndex& at, float factor,
                                   int tile) {
  static_assert(C.keys % 64 == 0);
  const Scales& scales = coded_of<C>(p).key;
#pragma unroll
  for (int part = 0; part < C.keys / 64; ++part) {
    float of_part = factor;
    if (scales.by_block()) {  // the last tile may end behind the last block
      const int key = min(tile * C.keys + 64 * part, p.problem.sizes.keys - 1);
      of_part *= tile::scale_at(scales, at.batch, p.group.divide(at.head), key);
    }
#pragma unroll
    for (int n = 8 * part; n < 8 * part + 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] *= of_part;
  }
}

// A thread's two rows in memory, of f16 or bf16.
struct CodedRowsOut {
  const Params& p;
  OutputKind kind;
  unsigned short* first;  // the first row's column 0
  bool there[2];
  float check[2] = {0.0f, 0.0f};  // NaN when something that is not finite was written

  __device__ CodedRowsOut(const Params& problem, OutputKind of, const TileIndex& at, int row)
      : p(problem), kind(of) {
    const long long offset =
        at.batch * p.output.strides.batch + at.head * p.output.strides.head + row * p.output.strides.row;
    first = static_cast<unsigned short*>(p.output.data) + offset;
    const int queries = tile::Sequence{p, at.batch}.queries();
#pragma unroll
    for (int r = 0; r < 2; ++r) there[r] = row + 8 * r < queries;
  }
  __device__ unsigned short* place(int r, int column) const {
    return first + 8 * r * p.output.strides.row + column;
  }

  // 32 columns of row r: x[m] has columns 8 m + ....
  __device__ void write(const float2 (&x)[4], int r, int first_column, int lane) {
    unsigned words[4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      check[r] = fmaf(x[m].x, 0.0f, fmaf(x[m].y, 0.0f, check[r]));
      words[m] = kind == OutputKind::bf16 ? tile::pack<__nv_bfloat16>(x[m].x, x[m].y)
                                          : tile::pack<__half>(x[m].x, x[m].y);
    }
    const int columns = p.sizes.value_dim;
    transpose_quad(words, lane);
    const int column = first_column + 8 * (lane % 4);
    unsigned short* const to = place(r, column);
    if (there[r] && column + 8 <= columns) {
      ptx::store_words(to, words[0], words[1], words[2], words[3]);
    } else if (there[r] && column < columns) {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (column + i < columns) to[i] = static_cast<unsigned short>(words[i / 2] >> 16 * (i % 2));
    }
  }
};

template <Config C, bool kEveryTile>
__device__ inline bool write_coded(const Sm90Params& p, const TileIndex& at, int first_row, RowState& rows,
                                   const Output<C>& o) {
  const bool spoilt = isnan(coded_factor<C, kEveryTile>(p, at, first_row));
  const int lane = ptx::thread_x() % 32, row = first_row + ptx::thread_x() % 128 / 32 * 16 + lane / 4;
  const Params& problem = p.problem;
  CodedRowsOut out(problem, coded_of<C>(p).output, at, row);
  tile::join_sums(rows);
  tile::SoftmaxState state[2] = {rows.of(0), rows.of(1)};
  float keep[2];
  tile::join_sink(problem, at.head, state, keep);
  const ValueScales scales(p, coded_of<C>(p).values_left, at, lane);
  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factor[r] = tile::fast_inverse_sum(state[r]) * keep[r] * scales.all();
    if (lane % 4 == 0 && out.there[r] && problem.output.lse != nullptr)
      problem.output
          .lse[at.batch * problem.output.lse_strides.batch + at.head * problem.output.lse_strides.head +
               (row + 8 * r) * problem.output.lse_strides.row] = tile::log_sum_exp(state[r]);
  }
#pragma unroll
  for (int n = 0; n < C.value_dim / 8; n += 4) {
    float2 of_columns[4];
#pragma unroll
    for (int m = 0; m < 4; ++m) of_columns[m] = scales.of(n + m);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float2 x[4];
#pragma unroll
      for (int m = 0; m < 4; ++m)
        x[m] = make_float2(o[n + m][2 * r] * factor[r] * of_columns[m].x,
                           o[n + m][2 * r + 1] * factor[r] * of_columns[m].y);
      out.write(x, r, 8 * n, lane);
    }
  }
  bool suspect = false;
#pragma unroll
  for (int r = 0; r < 2; ++r)
    suspect |= out.there[r] && (spoilt || state[r].sum == state[r].sum) && out.check[r] != out.check[r];
  return __any_sync(0xffffffffu, suspect);
}

// Rows [first, end) again, by one warp, where a NaN was written: see tile/careful.hpp.
template <Config C>
__device__ inline void recompute_coded(const Sm90Params& p, const TileIndex& at, int first, int end) {
  const int lane = ptx::thread_x() % 32;
  const Params& problem = p.problem;
  for (int row = first; row < min(end, tile::Sequence{problem, at.batch}.queries()); ++row) {
    const CodedRowsOut out(problem, coded_of<C>(p).output, at, row);
    bool suspect = false;
    for (int d = lane; d < problem.sizes.value_dim; d += 32)
      suspect |= tile::is_nan(out.kind, reinterpret_cast<const char*>(out.place(0, d)));
    if (!__any_sync(0xffffffffu, suspect)) continue;
    tile::careful_row_of<__half, true, true>(
        problem, at.batch, at.head, row, 0, [&](const auto& v, tile::RowIndex index) {
          return tile::CodedRows<CodeOf<C.codes>>(problem, coded_of<C>(p), v, index);
        });
  }
}

}  // namespace tessera::cuda::sm90
