// The way of f32 numbers from global memory to shared memory, by the 128 threads of the producer: a block of
// 64 columns at a time into registers, from there in three parts (tile/parts.hpp) to where the tensor cores
// read them.
//
//   thread t   columns 4 (t % 16) ... + 3 of rows t / 16, + 8, + 16, ...
//
// A warp's load covers two rows, 512 bytes; its stores of a part are two rows of 128 bytes.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/tile/parts.hpp"

namespace tessera::cuda::sm90_f32 {

// What a thread holds of a block of 64 rows; of one of 32 rows, the first half.
using Piece = float4[8];

// Where that is: row + 8 i and four columns from `column` on.
struct PieceIndex {
  int row = static_cast<int>(threadIdx.x) % 128 / 16, column = static_cast<int>(threadIdx.x) % 16 * 4;

  // In a block of shared memory, in bytes.
  __device__ unsigned offset() const {
    return static_cast<unsigned>(row * 128 + ((column / 8) ^ row) * 16 + column % 8 * 2);  // row is under 8
  }
};

// Four columns of a row that has `columns`; from `column` on, and zeros past the end. kAligned: they lie at a
// multiple of 16 bytes, and none of four are missing.
template <bool kAligned>
__device__ inline float4 load_four(const float* row, int column, int columns) {
  float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if constexpr (kAligned) {
    if (column < columns) x = *reinterpret_cast<const float4*>(row + column);
  } else {
    if (column < columns) x.x = row[column];
    if (column + 1 < columns) x.y = row[column + 1];
    if (column + 2 < columns) x.z = row[column + 2];
    if (column + 3 < columns) x.w = row[column + 3];
  }
  return x;
}

// A block of kRows rows. `address`: where the thread's first row goes in the first part; the other parts lie
// kPartBytes apart. As soon as x[i] is stored, reload(i) fills it again: so the next block is on its way
// while this one is stored.
template <int kPartBytes, int kRows, class Reload>
__device__ inline void store_block(Piece& x, unsigned address, unsigned& lost, Reload reload) {
#pragma unroll
  for (int i = 0; i < kRows / 8; ++i) {
    unsigned left[tile::kParts], right[tile::kParts];
    tile::split(make_float2(x[i].x, x[i].y), left, lost);
    tile::split(make_float2(x[i].z, x[i].w), right, lost);
    reload(i);
#pragma unroll
    for (int part = 0; part < tile::kParts; ++part)
      ptx::store_shared_8(address + part * kPartBytes + i * 1024, static_cast<int>(left[part]),
                          static_cast<int>(right[part]));
  }
}

}  // namespace tessera::cuda::sm90_f32
