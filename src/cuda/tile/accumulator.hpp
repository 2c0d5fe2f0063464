// What a thread holds of a matrix product's result. mma.sync and wgmma deal 16 rows out to a warp alike
// (tile/fragments.hpp, ptx/wgmma.hpp): a thread has two rows, 8 apart, and of every 8 columns two neighbours:
//
//   x[n][2 r + e]   row r (0, 1), column 8 n + e from the thread's first
//
// A warp of sm80 has one or two such tiles of 16 rows, a warp of a warpgroup has one. Rounded to 16 bits, two
// neighbouring n are the A operand of the next product.
#pragma once

namespace tessera::cuda::tile {

// Both take 32 bytes of a row of A at a time: m16n8k16 and m64nNk16 of 16-bit elements, twice as deep of
// 8-bit ones.
template <class T>
inline constexpr int kDepth = 32 / sizeof(T);

template <int kColumns>
using Accumulator = float[kColumns / 8][4];
template <int kKeys>
using ProbsTile = unsigned[kKeys / 16][4];

template <int kGroups>
__device__ inline void clear(float (&x)[kGroups][4]) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) x[n][e] = 0.0f;
}

template <int kGroups>
__device__ inline void add(float (&to)[kGroups][4], const float (&x)[kGroups][4]) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) to[n][e] += x[n][e];
}

template <int kGroups>
__device__ inline void scale_row(float (&x)[kGroups][4], int r, float factor) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n) {
    x[n][2 * r] *= factor;
    x[n][2 * r + 1] *= factor;
  }
}
// kRows: rows of the thread that are in use; the second may be none.
template <int kRows = 2, int kGroups>
__device__ inline void scale_rows(float (&x)[kGroups][4], const float (&factor)[2]) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) x[n][e] *= factor[kRows == 1 ? 0 : e / 2];
}

}  // namespace tessera::cuda::tile
