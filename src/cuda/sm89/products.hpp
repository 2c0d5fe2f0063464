// Global to shared memory, and the products of one warp: S = Q K^T and O += P V.
//
// Rows are of codes, a byte each. ldmatrix moves them in pairs, as if they were 16-bit elements:
//
//   Q, K   a register has four neighbouring codes and becomes two of f16: codes 0 and 2 of the four, and
//   codes
//          1 and 3. Q and K agree on that order, and a dot product has none.
//   V      transposed, a register has two neighbouring columns of two neighbouring keys. Its even bytes are
//          two keys of the even column, its odd bytes of the odd one: B operands of two products, whose
//          columns are every second column of 16.
//
//   O[2 j], O[2 j + 1]   even and odd columns of 16 j ... 16 j + 15: a thread has four neighbours of a row
#pragma once

#include "cuda/ptx/apart.hpp"
#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/matrix.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm89/configs.hpp"
#include "cuda/tile/accumulator.hpp"
#include "cuda/tile/fragments.hpp"
#include "cuda/tile/swizzle.hpp"

namespace tessera::cuda::sm89 {

// Swizzles count 16-bit elements.
template <int kDim>
__device__ inline unsigned chunk_offset(int row, int chunk) {
  return static_cast<unsigned>(tile::chunk_offset<kDim / 2>(row, chunk));
}
template <int kDim>
__device__ inline unsigned fragment_address(unsigned first, int rows, int step) {
  return tile::fragment_address<kDim / 2>(first, rows, step);
}

// How the threads of a block share rows of kDim codes: a thread copies the same 16 of every kPassRows-th row.
template <int kDim, int kThreads>
struct Copies {
  static constexpr int kChunks = kDim / 16, kPassRows = kThreads / kChunks;
  static_assert(kPassRows % 8 == 0, "the swizzle repeats");

  __device__ static const char* first_of(const void* rows, long long stride) {
    const int thread = ptx::thread_x();
    return static_cast<const char*>(rows) + thread / kChunks * stride + thread % kChunks * 16;
  }
  // kRows rows, of which `rows` and `dim` are there; the others become zeros. `from`: the thread's first.
  template <int kRows>
  __device__ static void start(unsigned to, const char* from, long long stride, int dim, int rows) {
    const int thread = ptx::thread_x(), row = thread / kChunks, chunk = thread % kChunks;
    to += chunk_offset<kDim>(row, chunk);
#pragma unroll
    for (int i = 0; i < kRows / kPassRows; ++i) {
      const bool there = row + i * kPassRows < rows && chunk * 16 < dim;
      ptx::copy_async_16(to + i * kPassRows * kDim, from, there);
      from += kPassRows * stride;
    }
  }
};

// Where a lane finds its first fragments, of K and V in the first slot of each.
template <Config C>
struct Lanes {
  unsigned query, key, value;

  __device__ explicit Lanes(unsigned shared) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const tile::FragmentIndex a = tile::ldmatrix_a(lane), b = tile::ldmatrix_b(lane),
                              bt = tile::ldmatrix_b_transposed(lane);
    query = shared + 16 * warp * C.dim + chunk_offset<C.dim>(a.row, a.column);
    key = shared + C.keys_at() + chunk_offset<C.dim>(b.row, b.column);
    value = shared + C.values_at() + chunk_offset<C.dim>(bt.row, bt.column);
  }
  __device__ unsigned key_of(int tile) const { return key + tile % C.stages * C.tile_bytes(); }
  __device__ unsigned value_of(int tile) const { return value + tile % C.stages * C.tile_bytes(); }
};

// An A operand of 16 rows and 32 codes: two of f16.
template <class Code>
struct WideQuery {
  unsigned half[2][4];

  __device__ explicit WideQuery(const unsigned (&a)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) ptx::widen_apart<Code>(a[r], half[r / 2][r % 2], half[r / 2][r % 2 + 2]);
  }
  __device__ void multiply(float (&s)[4], const unsigned (&b)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      unsigned even, odd;
      ptx::widen_apart<Code>(b[h], even, odd);
      ptx::mma_f32<__half>(s, half[h], even, odd);
    }
  }
};

template <Config C, class Code>
__device__ inline void multiply_query_key(tile::Accumulator<C.keys>& s, unsigned query, unsigned key) {
  tile::clear(s);
#pragma unroll
  for (int k = 0; k < C.dim / 32; ++k) {
    unsigned a[4];
    ptx::load_matrix_x4(a, fragment_address<C.dim>(query, 0, k));
    const WideQuery<Code> wide(a);
#pragma unroll
    for (int n = 0; n < C.keys / 16; ++n) {
      unsigned b[4];
      ptx::load_matrix_x4(b, fragment_address<C.dim>(key, 16 * n, k));
#pragma unroll
      for (int i = 0; i < 2; ++i) wide.multiply(s[2 * n + i], {b[2 * i], b[2 * i + 1]});
    }
  }
}

// 32 columns of P V, added to `o`, with step n of them.
template <Config C, class Code>
__device__ inline void add_columns(float (&o)[4][4], const tile::ProbsTile<C.keys>& probs, unsigned value,
                                   int n) {
#pragma unroll
  for (int k = 0; k < C.keys / 16; ++k) {
    unsigned v[4];
    ptx::load_matrix_x4_transposed(v, fragment_address<C.dim>(value, 16 * k, n));
#pragma unroll
    for (int i = 0; i < 2; ++i) {  // of 16 columns
      unsigned even[2], odd[2];
      ptx::widen_apart<Code>(v[2 * i], even[0], odd[0]);
      ptx::widen_apart<Code>(v[2 * i + 1], even[1], odd[1]);
      ptx::mma_f32<__half>(o[2 * i], probs[k], even[0], even[1]);
      ptx::mma_f32<__half>(o[2 * i + 1], probs[k], odd[0], odd[1]);
    }
  }
}

// kScaled: times `scale`, which is that of this tile's values.
template <Config C, class Code, bool kScaled>
__device__ inline void multiply_probs_value(tile::Accumulator<C.dim>& o, const tile::ProbsTile<C.keys>& probs,
                                            unsigned value, float scale) {
#pragma unroll
  for (int n = 0; n < C.dim / 32; ++n) {
    float part[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) part[i][e] = kScaled ? 0.0f : o[4 * n + i][e];
    add_columns<C, Code>(part, probs, value, n);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        o[4 * n + i][e] = kScaled ? fmaf(part[i][e], scale, o[4 * n + i][e]) : part[i][e];
  }
}

}  // namespace tessera::cuda::sm89
