// Q beside keys of 8 bits: as f16, in the order of dimensions in which codes come out of a register
// (ptx/apart.hpp). Of 16 dimensions lane j of four has 4j ... 4j + 3: numbers 0 and 2 of them, then 1 and 3.
#pragma once

#include "cuda/ptx/apart.hpp"
#include "cuda/serving/query.hpp"
#include "cuda/tile/coded_rows.hpp"
#include "cuda/tile/narrow_query.hpp"

namespace tessera::cuda::serving {

// Of a packed row of codes.
__device__ inline float query_scale(const CodedParams& d, const Task& task, int row) {
  if (row >= task.rows) return 1.0f;
  const int query = d.problem.pack.divide(row), group = d.problem.sizes.group,
            head = task.pack_index * group + row - query * group;
  return tile::scale_at(d.mixed.coded.query, task.batch, head, task.first_query + query);
}

// Four codes, or four elements of 16 bits, from dimension c on; zeros past `dim`. `quads`: all at once.
__device__ inline unsigned load_codes(const unsigned char* row, int c, int dim, bool quads) {
  if (row == nullptr || c >= dim) return 0;
  if (quads) return *reinterpret_cast<const unsigned*>(row + c);
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (c + i < dim) word |= static_cast<unsigned>(row[c + i]) << 8 * i;
  return word;
}
__device__ inline uint2 load_elements(const unsigned short* row, int c, int dim, bool quads) {
  if (row == nullptr || c >= dim) return make_uint2(0, 0);
  const unsigned short* const from = row + c;
  if (quads) return *reinterpret_cast<const uint2*>(from);
  unsigned x[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (c + i < dim) x[i] = from[i];
  return make_uint2(x[0] | x[1] << 16, x[2] | x[3] << 16);
}

// The thread's part of a row, of its first `dim` columns; returns what dot products with it are multiplied
// by. step(k): the first of the 16 columns of step k. By a whole warp.
template <class Code, int kSteps, class Step>
__device__ inline float load_coded_query(unsigned (&q)[kSteps][2], const CodedParams& d, const Task& task,
                                         int row, int dim, const Step& step) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 4;
  const bool quads = d.query_quads != 0;
  if (d.mixed.query == QueryKind::codes) {
    const auto* const from = query_row<unsigned char>(d.problem, task, row);
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
      ptx::widen_apart<Code>(load_codes(from, step(k) + first, dim, quads), q[k][0], q[k][1]);
    return query_scale(d, task, row);
  }
  const auto* const from = query_row<unsigned short>(d.problem, task, row);
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const uint2 four = load_elements(from, step(k) + first, dim, quads);
    q[k][0] = __byte_perm(four.x, four.y, 0x5410);
    q[k][1] = __byte_perm(four.x, four.y, 0x7632);
  }
  return d.mixed.query == QueryKind::bf16 ? tile::narrow_range(q) : 1.0f;
}
template <class Code, int kSteps>
__device__ inline float load_coded_query(unsigned (&q)[kSteps][2], const CodedParams& d, const Task& task,
                                         int row) {
  return load_coded_query<Code>(q, d, task, row, d.problem.sizes.dim, [](int k) { return 16 * k; });
}

// The same in the order that products of f16 take: two neighbours of every 16, and those 8 behind them.
template <class Code, int kSteps>
__device__ inline float load_wide_query(unsigned (&q)[kSteps][2], const CodedParams& d, const Task& task,
                                        int row) {
  const int dim = d.problem.sizes.dim, first = static_cast<int>(threadIdx.x) % 4 * 2;
  if (d.mixed.query == QueryKind::codes) {
    const auto* const from = query_row<unsigned char>(d.problem, task, row);
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int c = 16 * k + 8 * i + first;
        unsigned pair = 0, unused;
        if (from != nullptr && c < dim) pair = from[c] | (c + 1 < dim ? from[c + 1] << 8 : 0u);
        ptx::widen_four<Code>(pair, q[k][i], unused);
      }
    return query_scale(d, task, row);
  }
  load_query<unsigned short, true>(q, query_row<unsigned short>(d.problem, task, row), dim, first,
                                   d.query_pairs != 0);
  return d.mixed.query == QueryKind::bf16 ? tile::narrow_range(q) : 1.0f;
}

}  // namespace tessera::cuda::serving
