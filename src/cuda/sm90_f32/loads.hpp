// The way of f32 numbers from global memory to shared memory, by the 128 threads of the producer: a block of
// 64 columns at a time into registers, from there in three parts (tile/parts.hpp) to where the tensor cores
// read them.
//
//   thread t   columns 4 (t % 16) ... + 3 of rows t / 16, + 8, + 16, ...
//
// A warp's load covers two rows, 512 bytes; its stores of a part are two rows of 128 bytes.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/tile/parts.hpp"

namespace tessera::cuda::sm90_f32 {

// What a thread holds of a block.
template <int kRows>
using Piece = float4[kRows / 8];

// Rows in global memory, as the producer's threads read them.
struct Source {
  int columns;  // that there are; the rest reads as zeros
  bool vector;  // every four columns lie at a multiple of 16 bytes, and none of four are missing
};
__device__ inline Source source_of(const Tensor& tensor, const void* rows, int columns) {
  const long long unaligned = reinterpret_cast<long long>(rows) | tensor.strides.row * 4;
  return {columns, (unaligned & 15) == 0 && columns % 4 == 0};
}

__device__ inline float4 load_some(const float* from, int count) {
  float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (count > 0) x.x = from[0];
  if (count > 1) x.y = from[1];
  if (count > 2) x.z = from[2];
  if (count > 3) x.w = from[3];
  return x;
}

// row_at(r): row r of the block, or null where there is none.
template <int kCount, class RowAt>
__device__ inline void load_block(float4 (&x)[kCount], const Source& source, int block, RowAt row_at) {
  const int thread = ptx::thread_x() % 128, first = thread / 16, column = 64 * block + thread % 16 * 4;
  if (source.vector) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float* const row = row_at(first + 8 * i);
      x[i] = row != nullptr && column < source.columns ? *reinterpret_cast<const float4*>(row + column)
                                                       : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float* const row = row_at(first + 8 * i);
      x[i] = load_some(row + column, row != nullptr ? source.columns - column : 0);
    }
  }
}

// to: the block in the first part; the other parts lie kPartBytes apart.
template <int kPartBytes, int kCount>
__device__ inline void store_block(const float4 (&x)[kCount], const char* to, unsigned& lost) {
  const int thread = ptx::thread_x() % 128, row = thread / 16, column = thread % 16 * 4;
  const unsigned address =
      ptx::shared_address(to) +
      static_cast<unsigned>(row * 128 + ((column / 8) ^ row) * 16 + column % 8 * 2);  // row is under 8
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    unsigned left[tile::kParts], right[tile::kParts];
    tile::split(make_float2(x[i].x, x[i].y), left, lost);
    tile::split(make_float2(x[i].z, x[i].w), right, lost);
#pragma unroll
    for (int part = 0; part < tile::kParts; ++part)
      ptx::store_shared_8(address + part * kPartBytes + i * 1024, static_cast<int>(left[part]),
                          static_cast<int>(right[part]));
  }
}

}  // namespace tessera::cuda::sm90_f32
