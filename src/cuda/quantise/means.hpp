// Means of channels, in the order that quantise/codes.hpp lays down. A block adds up 32 channels of a chunk:
// a warp for each of its blocks of 64 rows, a thread a channel; the first warp puts those together. Then a
// thread for each channel of a head takes its chunks in order. The first is one pass over the input, bound by
// memory or by its arithmetic, about a dozen instructions an element; the second reads 24 bytes for every
// 1024 elements.
#pragma once

#include "cuda/quantise/rows.hpp"
#include "quantise/codes.hpp"

namespace tessera::cuda::quantise {

inline constexpr int kSumBlocks = codes::kChunkRows / codes::kSumRows;
static_assert(kSumThreads == kSumBlocks * kColumns);

__device__ inline long long column_tiles(const QuantiseParams& p) {
  return (p.dim + kColumns - 1) / kColumns;
}

// One channel, over the rows of a block. Loads come first, so that several are on their way at once.
template <class T>
__device__ inline codes::Sum sum_of(const QuantiseParams& p, const T* from, long long rows) {
  constexpr int kAtOnce = 8;
  codes::Sum sum{};
#pragma unroll 1
  for (int first = 0; first < codes::kSumRows && first < rows; first += kAtOnce) {
    T x[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i < rows) x[i] = from[(first + i) * p.input_strides[2]];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i < rows) codes::add(tile::to_float(x[i]), &sum);
  }
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kSumThreads) add_up(const __grid_constant__ QuantiseParams p) {
  __shared__ codes::Sum blocks[kSumBlocks][kColumns];
  follow();
  const int n = static_cast<int>(threadIdx.x), lane = n % kColumns, block = n / kColumns;
  const long long tiles = column_tiles(p), items = spans_of(p, codes::kChunkRows) * tiles;
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += gridDim.x) {
    const Span span(p, item / tiles, codes::kChunkRows);
    const long long column = item % tiles * kColumns + lane;
    const long long first = span.first + block * codes::kSumRows;
    const T* const from = static_cast<const T*>(p.input) + span.outer * p.input_strides[0] +
                          span.head * p.input_strides[1] + first * p.input_strides[2] + column;
    if (column < p.dim) blocks[block][lane] = sum_of(p, from, span.last - first);
    __syncthreads();
    if (block == 0 && column < p.dim) {
      codes::Sum sum{};
#pragma unroll 1
      for (int b = 0; b < kSumBlocks && span.first + b * codes::kSumRows < span.last; ++b)
        codes::add(blocks[b][lane], &sum);
      static_cast<codes::Sum*>(p.workspace)[item / tiles * p.dim + column] = sum;
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) finish_means(const __grid_constant__ QuantiseParams p) {
  follow();
  const long long chunks = (p.rows + codes::kChunkRows - 1) / codes::kChunkRows;
  const long long all = p.outer * p.heads * p.dim;
#pragma unroll 1
  for (long long n = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; n < all;
       n += static_cast<long long>(gridDim.x) * kThreads) {
    const long long head = n / p.dim, d = n % p.dim;
    const codes::Sum* const parts = static_cast<const codes::Sum*>(p.workspace) + head * chunks * p.dim + d;
    codes::Sum sum{};
#pragma unroll 4
    for (long long c = 0; c < chunks; ++c) codes::add(parts[c * p.dim], &sum);
    p.means[head / p.heads * p.mean_strides[0] + head % p.heads * p.mean_strides[1] + d * p.mean_strides[3]] =
        codes::mean_of(sum, p.rows);
  }
}

}  // namespace tessera::cuda::quantise
