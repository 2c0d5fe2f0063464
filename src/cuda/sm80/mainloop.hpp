// The inner loops of the mma.sync kernels, for one warp: S = Q K^T, softmax in registers, O += P V.
//
//   S[m][n][4]   score fragments: 16-row tile m, 8 keys n          (tile/fragments.hpp says who holds what)
//   O[m][n][4]   output fragments: 16-row tile m, 8 dimensions n
//   P[m][k][4]   two neighbouring S fragments rounded to 16 bits are an A operand: nothing leaves registers
#pragma once

#include "cuda/ptx/matrix.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm80/config.hpp"
#include "cuda/sm80/loads.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/fragments.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::sm80 {

template <Config C>
using Scores = float[C.row_tiles][C.keys / 8][4];
template <Config C>
using Weights = unsigned[C.row_tiles][C.keys / 16][4];
template <Config C>
using Output = float[C.row_tiles][C.value_dim / 8][4];
template <Config C>
using Query = unsigned[C.query_in_registers ? C.row_tiles : 1][C.query_in_registers ? C.dim / 16 : 1][4];

// A thread's rows: two per 16-row tile. Exponents are taken against `reference`: see tile/softmax.hpp.
template <Config C>
struct Rows {
  static constexpr int kCount = 2 * C.row_tiles;
  float reference[kCount];
  float sum[kCount];  // this thread's part
};

// Where a lane finds its first fragments: shared-memory addresses, for K and V in the ring's first slot.
template <Config C>
struct Lanes {
  unsigned query, key, value;

  __device__ explicit Lanes(unsigned shared) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int row = warp % C.row_warps * C.row_tiles * 16, split = warp / C.row_warps;
    const tile::Place a = tile::ldmatrix_a(lane), b = tile::ldmatrix_b(lane),
                      bt = tile::ldmatrix_b_transposed(lane);
    query = shared + row * C.dim * 2 + chunk_offset<C.dim>(a.row, a.column);
    key = shared + C.query_bytes() + split * C.keys * C.dim * 2 + chunk_offset<C.dim>(b.row, b.column);
    value = shared + C.query_bytes() + C.stages * C.key_bytes() + split * C.keys * C.value_dim * 2 +
            chunk_offset<C.value_dim>(bt.row, bt.column);
  }
  __device__ unsigned key_of(int tile) const { return key + tile % C.stages * C.key_bytes(); }
  __device__ unsigned value_of(int tile) const { return value + tile % C.stages * C.value_bytes(); }
};

template <Config C, class T>
__device__ inline void multiply_query_key(Scores<C>& s, const Query<C>& q, unsigned query, unsigned key) {
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m)
#pragma unroll
    for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[m][n][e] = 0.0f;
#pragma unroll
  for (int k = 0; k < C.dim / 16; ++k) {
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

template <Config C, class T>
__device__ inline void multiply_weights_value(Output<C>& o, const Weights<C>& w, unsigned value) {
#pragma unroll
  for (int k = 0; k < C.keys / 16; ++k) {
#pragma unroll
    for (int n = 0; n < C.value_dim / 16; ++n) {
      unsigned b[4];
      ptx::load_matrix_x4_transposed(b, fragment_address<C.value_dim>(value, 16 * k, n));
#pragma unroll
      for (int m = 0; m < C.row_tiles; ++m) {
        ptx::mma_f32<T>(o[m][2 * n], w[m][k], b[0], b[1]);
        ptx::mma_f32<T>(o[m][2 * n + 1], w[m][k], b[2], b[3]);
      }
    }
  }
}

// Row h (0 or 1) of 16-row tile m, as seen by this thread, within the warp's rows.
__device__ inline int thread_row(int thread, int m, int h) { return 16 * m + 8 * h + thread % 32 / 4; }
// First of the two keys of fragment n that this thread holds.
__device__ inline int thread_key(int thread, int n) { return 8 * n + 2 * (thread % 4); }

// Of row h of 16-row tile m, over the four threads that share it.
template <Config C>
__device__ inline float largest_score(const Scores<C>& s, int m, int h) {
  float largest = fmaxf(s[m][0][2 * h], s[m][0][2 * h + 1]);
#pragma unroll
  for (int n = 1; n < C.keys / 8; ++n) largest = fmaxf(largest, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  return fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
}

// The first reference of every row: the largest score of its first tile. `factor` turns scores into exponents
// of 2.
template <Config C>
__device__ inline void start_references(const Scores<C>& s, Rows<C>& rows, float factor) {
#pragma unroll
  for (int r = 0; r < Rows<C>::kCount; ++r)  // a row that sees nothing yet keeps a finite one
    rows.reference[r] = fmaxf(largest_score<C>(s, r / 2, r % 2) * factor, tile::kLowest);
}

// Scores of 16-row tile m to weights, rounded to 16 bits, and their sums.
template <Config C, class T>
__device__ inline void exponentiate(Weights<C>& w, const Scores<C>& s, const Rows<C>& rows, int m,
                                    float factor, float (&sum)[2]) {
#pragma unroll
  for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float reference = rows.reference[2 * m + h];
      const float x = tile::fast_exp2(fmaf(s[m][n][2 * h], factor, -reference));
      const float y = tile::fast_exp2(fmaf(s[m][n][2 * h + 1], factor, -reference));
      sum[h] = n == 0 ? x + y : sum[h] + (x + y);  // in pairs: half as long a chain of additions
      w[m][n / 2][n % 2 * 2 + h] = tile::pack<T>(x, y);
    }
}

// Rows of 16-row tile m whose weights have grown too far start over from the largest score there is now. Each
// row decides for itself, so that no row's bits depend on its neighbours.
template <Config C>
__device__ inline void start_over(const Scores<C>& s, Rows<C>& rows, Output<C>& o, int m, float factor,
                                  const float (&sum)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float& reference = rows.reference[2 * m + h];
    const float largest = largest_score<C>(s, m, h) * factor;
    const unsigned grown = __ballot_sync(0xffffffffu, !(sum[h] <= tile::kMostSum));
    const bool mine = (grown >> (ptx::thread_x() % 32 & ~3) & 15u) != 0;
    const float next = mine ? largest : reference;
    const float shrink = tile::fast_exp2(reference - next);
    reference = next;
    rows.sum[2 * m + h] *= shrink;
#pragma unroll
    for (int n = 0; n < C.value_dim / 8; ++n) {
      o[m][n][2 * h] *= shrink;
      o[m][n][2 * h + 1] *= shrink;
    }
  }
}

template <Config C, class T>
__device__ inline void softmax(Weights<C>& w, const Scores<C>& s, Rows<C>& rows, Output<C>& o, float factor) {
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m) {
    float sum[2];
    exponentiate<C, T>(w, s, rows, m, factor, sum);
    if (__any_sync(0xffffffffu, !(fmaxf(sum[0], sum[1]) <= tile::kMostSum))) {
      start_over<C>(s, rows, o, m, factor, sum);
      exponentiate<C, T>(w, s, rows, m, factor, sum);
    }
    rows.sum[2 * m] += sum[0];
    rows.sum[2 * m + 1] += sum[1];
  }
}

}  // namespace tessera::cuda::sm80
