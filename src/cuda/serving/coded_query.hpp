// Q beside keys of 8 bits: as f16, in the order of dimensions in which codes come out of a register
// (ptx/apart.hpp). Of 16 dimensions lane j of four has 4j ... 4j + 3: numbers 0 and 2 of them, then 1 and 3.
//
// f16 holds every code, and a row of bf16 once a power of two has brought its largest element near f16's
// largest: unless others are 2^30 times smaller. Such a row, and one that holds inf or NaN, becomes NaN, and
// is computed again with plain arithmetic as any row is that comes out so.
#pragma once

#include "cuda/ptx/apart.hpp"
#include "cuda/serving/query.hpp"
#include "cuda/tile/coded_rows.hpp"

namespace tessera::cuda::serving {

inline constexpr unsigned kNanPair = 0x7fff7fffu;  // of f16

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

// The largest exponent of |x| that four lanes have of a row, as f32 has it in its bits.
__device__ inline unsigned quad_exponent(float largest) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  return __float_as_uint(largest) >> 23;
}

// Elements of bf16 in q become f16 of the row divided by what is returned.
template <int kSteps>
__device__ inline float narrow_range(unsigned (&q)[kSteps][2]) {
  float largest = 0.0f;
  bool finite = true;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 x = tile::unpack<__nv_bfloat16>(q[k][i]);
      const float size = fmaxf(fabsf(x.x), fabsf(x.y));
      finite &= x.x - x.x == 0.0f && x.y - x.y == 0.0f;
      largest = fmaxf(largest, size);
    }
  // 2^14 or more, and less than 2^15; both powers of two have to be normal.
  const unsigned exponent = max(min(quad_exponent(largest), 254u), 16u);
  const float up = __uint_as_float((268u - exponent) << 23), down = __uint_as_float((exponent - 14u) << 23);
  bool exact = finite;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 x = tile::unpack<__nv_bfloat16>(q[k][i]);
      q[k][i] = tile::pack<__half>(x.x * up, x.y * up);
      const float2 back = tile::unpack<__half>(q[k][i]);
      exact &= back.x == x.x * up && back.y == x.y * up;
    }
  const unsigned lane = threadIdx.x % 32, all_four = 15u << (lane & ~3u);
  if ((__ballot_sync(0xffffffffu, exact) & all_four) != all_four) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) q[k][0] = q[k][1] = kNanPair;
  }
  return down;
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
  return d.mixed.query == QueryKind::bf16 ? narrow_range(q) : 1.0f;
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
  return d.mixed.query == QueryKind::bf16 ? narrow_range(q) : 1.0f;
}

}  // namespace tessera::cuda::serving
