// The products of the mma.sync kernels, for one warp: S = Q K^T and O += P V; softmax.hpp has what is
// between.
//
//   S[m][n][4]   score fragments: 16-row tile m, 8 keys n          (tile/fragments.hpp says who holds what)
//   O[m][n][4]   output fragments: 16-row tile m, 8 dimensions n
//   P[m][k][4]   two neighbouring S fragments rounded to 16 bits are an A operand: nothing leaves registers
#pragma once

#include "cuda/ptx/matrix.hpp"
#include "cuda/sm80/config.hpp"
#include "cuda/sm80/loads.hpp"
#include "cuda/tile/accumulator.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/fragments.hpp"

namespace tessera::cuda::sm80 {

template <Config C>
using Scores = tile::Accumulator<C.keys>[C.row_tiles];
template <Config C>
using Probs = tile::ProbsTile<C.keys>[C.row_tiles];
template <Config C>
using Output = tile::Accumulator<C.value_dim>[C.row_tiles];
template <Config C>
using Query = unsigned[C.query_in_registers ? C.row_tiles : 1][C.query_in_registers ? C.dim / 16 : 1][4];

// Where a lane finds its first fragments: shared-memory addresses, for K and V in the ring's first slot.
template <Config C>
struct Lanes {
  unsigned query, key, value;

  __device__ explicit Lanes(unsigned shared) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int row = warp % C.row_warps * C.row_tiles * 16, split = warp / C.row_warps;
    const tile::FragmentIndex a = tile::ldmatrix_a(lane), b = tile::ldmatrix_b(lane),
                              bt = tile::ldmatrix_b_transposed(lane);
    query = shared + row * C.dim * 2 + chunk_offset<C.dim>(a.row, a.column);
    key = shared + C.query_bytes() + split * C.keys * C.dim * 2 + chunk_offset<C.dim>(b.row, b.column);
    value = shared + C.query_bytes() + C.stages * C.key_bytes() + split * C.keys * C.value_dim * 2 +
            chunk_offset<C.value_dim>(bt.row, bt.column);
  }
  __device__ unsigned key_of(int tile) const { return key + tile % C.stages * C.key_bytes(); }
  __device__ unsigned value_of(int tile) const { return value + tile % C.stages * C.value_bytes(); }
};

// Adds steps first ... end - 1.
template <Config C, class T>
__device__ inline void add_query_key(Scores<C>& s, const Query<C>& q, unsigned query, unsigned key, int first,
                                     int end) {
#pragma unroll
  for (int k = first; k < end; ++k) {
    unsigned a[C.row_tiles][4];
#pragma unroll
    for (int m = 0; m < C.row_tiles; ++m) {
      if constexpr (C.query_in_registers) {
#pragma unroll
        for (int r = 0; r < 4; ++r) a[m][r] = q[m][k][r];
      } else {
        ptx::load_matrix_x4(a[m], fragment_address<C.dim>(query, 16 * m, k));
      }
    }
#pragma unroll
    for (int n = 0; n < C.keys / 16; ++n) {
      unsigned b[4];
      ptx::load_matrix_x4(b, fragment_address<C.dim>(key, 16 * n, k));
#pragma unroll
      for (int m = 0; m < C.row_tiles; ++m) {
        ptx::mma_f32<T>(s[m][2 * n], a[m], b[0], b[1]);
        ptx::mma_f32<T>(s[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Tensor cores cut off what an accumulator cannot hold, always towards zero: after more steps than these, a
// sum is too far off, and sums of fewer are added by plain additions.
template <class T>
inline constexpr int kMostSteps = 256 / tile::kDepth<T>;

template <Config C, class T>
__device__ inline void multiply_query_key(Scores<C>& s, const Query<C>& q, unsigned query, unsigned key) {
  constexpr int kSteps = C.dim / tile::kDepth<T>, kPart = kMostSteps<T> / 2;
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m) tile::clear(s[m]);
  if constexpr (kSteps <= kMostSteps<T>) {
    add_query_key<C, T>(s, q, query, key, 0, kSteps);
  } else {
#pragma unroll
    for (int k = 0; k < kSteps; k += kPart) {
      Scores<C> part;
#pragma unroll
      for (int m = 0; m < C.row_tiles; ++m) tile::clear(part[m]);
      add_query_key<C, T>(part, q, query, key, k, k + kPart);
#pragma unroll
      for (int m = 0; m < C.row_tiles; ++m) tile::add(s[m], part[m]);
    }
  }
}

template <Config C, class T>
__device__ inline void multiply_probs_value(Output<C>& o, const Probs<C>& probs, unsigned value) {
#pragma unroll
  for (int k = 0; k < C.keys / tile::kDepth<T>; ++k) {
#pragma unroll
    for (int n = 0; n < C.value_dim / 16; ++n) {
      unsigned b[4];
      ptx::load_matrix_x4_transposed(b, fragment_address<C.value_dim>(value, 16 * k, n));
#pragma unroll
      for (int m = 0; m < C.row_tiles; ++m) {
        ptx::mma_f32<T>(o[m][2 * n], probs[m][k], b[0], b[1]);
        ptx::mma_f32<T>(o[m][2 * n + 1], probs[m][k], b[2], b[3]);
      }
    }
  }
}

// Row h (0 or 1) of 16-row tile m, as seen by this thread, within the warp's rows.
__device__ inline int thread_row(int thread, int m, int h) { return 16 * m + 8 * h + thread % 32 / 4; }
// The first of the keys that this thread holds, within the warp's.
__device__ inline int thread_key(int thread) { return 2 * (thread % 4); }

}  // namespace tessera::cuda::sm80
