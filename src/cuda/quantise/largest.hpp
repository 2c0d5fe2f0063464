// The largest finite magnitudes, and the scales of them. A block takes unit_rows rows of a head and leaves
// one number, or one for each channel; a second kernel has a block for each scale, or for 32 of channels. The
// first is a pass over the input by 16 bytes a thread, bound by memory. Of maxima the order does not matter.
#pragma once

#include "cuda/quantise/rows.hpp"
#include "quantise/codes.hpp"

namespace tessera::cuda::quantise {

__device__ inline float larger(float x, float y) { return x > y ? x : y; }

// Magnitudes that the threads of a block found, each for its own channels of one piece, by channel.
template <class T, bool kWholeRows>
__device__ inline void write_channels(const Rows<T, kWholeRows>& rows, int piece,
                                      const float (&most)[kWide<T>], float* shared, float* to) {
  const int n = static_cast<int>(threadIdx.x), columns = rows.columns();
#pragma unroll
  for (int v = 0; v < kWide<T>; ++v) shared[n * kWide<T> + v] = most[v];
  __syncthreads();
  const int column = (rows.first_piece + piece) * columns + n;
  if (n < columns && column < rows.p.dim) {
    float found = 0;
    for (int g = 0; g < rows.groups; ++g) found = larger(found, shared[g * columns + n]);
    to[column] = found;
  }
  __syncthreads();
}

// The largest number of all threads, in thread 0.
__device__ inline float largest_of_block(float x, float* shared) {
  const int n = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = larger(x, __shfl_xor_sync(0xffffffffu, x, step));
  if (n % 32 == 0) shared[n / 32] = x;
  __syncthreads();
  if (n == 0)
    for (int warp = 1; warp < kThreads / 32; ++warp) x = larger(x, shared[warp]);
  __syncthreads();
  return x;
}

template <class T, bool kWholeRows>
__global__ void __launch_bounds__(kThreads, kLeastBlocks<kWholeRows>)
    find_largest(const __grid_constant__ QuantiseParams p) {
  using Rows = Rows<T, kWholeRows>;
  static_assert(kMostLanes * kWide<T> <= kThreads, "a thread for each column of a piece");
  __shared__ float shared[kThreads * kWide<T>];
  follow();
  const long long items = spans_of(p, p.unit_rows);
  auto* const results = static_cast<float*>(p.workspace);
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += gridDim.x) {
    Rows rows(p, Span(p, item, p.unit_rows));
    float all = 0;
#pragma unroll 1
    for (int piece = 0; piece < rows.pieces; piece += Rows::kPieces) {
      rows.begin(piece);
      typename Rows::Part most = {};
      rows.for_each([&](long long, const typename Rows::Part& x) {
#pragma unroll
        for (int i = 0; i < Rows::kPieces; ++i)
#pragma unroll
          for (int v = 0; v < kWide<T>; ++v) {
            const float magnitude = codes::magnitude_of(x[i][v]);
            if (magnitude > most[i][v] && magnitude <= codes::kLargestFloat) most[i][v] = magnitude;
          }
      });
#pragma unroll
      for (int i = 0; i < Rows::kPieces; ++i) {
        if (p.by_channel != 0) {
          if (piece + i < rows.pieces) write_channels(rows, i, most[i], shared, results + item * p.dim);
          continue;
        }
#pragma unroll
        for (int v = 0; v < kWide<T>; ++v) all = larger(all, most[i][v]);
      }
    }
    if (p.by_channel != 0) continue;
    all = largest_of_block(all, shared);
    if (threadIdx.x == 0) results[item] = all;
  }
}

// Which of the parts that find_largest left a scale is over. A size of 1 stands for all.
struct Parts {
  long long outer, heads, units;  // how many
  long long first_outer, first_head, first_unit;
  long long all_heads, all_units;

  __device__ Parts(const QuantiseParams& p, long long o, long long h, long long b)
      : outer(p.scale_shape[0] == 1 ? p.outer : 1),
        heads(p.scale_shape[1] == 1 ? p.heads : 1),
        first_outer(p.scale_shape[0] == 1 ? 0 : o),
        first_head(p.scale_shape[1] == 1 ? 0 : h),
        all_heads(p.heads),
        all_units(divided_up(p.rows, p.unit_rows)) {
    units = p.scale_rows == 0 ? all_units : 1;
    first_unit = p.scale_rows == 0 ? 0 : b;
  }
  __device__ long long count() const { return outer * heads * units; }
  __device__ long long operator[](long long n) const {
    const Quotient above(n, units), outers(above.whole, heads);
    return ((first_outer + outers.whole) * all_heads + first_head + outers.rest) * all_units + first_unit +
           above.rest;
  }
};

__global__ void __launch_bounds__(kThreads) finish_scales(const __grid_constant__ QuantiseParams p) {
  __shared__ float shared[kThreads];
  follow();
  const int n = static_cast<int>(threadIdx.x), width = p.by_channel != 0 ? kColumns : 1;
  const int channels = p.by_channel != 0 ? p.dim : 1;
  const long long *const shape = p.scale_shape, *const s = p.scale_strides;
  const long long tiles = (channels + width - 1) / width, items = shape[0] * shape[1] * shape[2] * tiles;
  const auto* const found = static_cast<const float*>(p.workspace);
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += gridDim.x) {
    const Quotient cell(item, tiles), of_head(cell.whole, shape[2]), of_outer(of_head.whole, shape[1]);
    const long long b = of_head.rest, h = of_outer.rest, o = of_outer.whole,
                    d = cell.rest * width + n % width;
    const Parts parts(p, o, h, b);
    float most = 0;
    if (d < channels)
#pragma unroll 4
      for (long long i = n / width; i < parts.count(); i += kThreads / width)
        most = larger(most, found[parts[i] * channels + d]);
    shared[n] = most;
    __syncthreads();
    if (n < width && d < channels) {
      for (int other = n + width; other < kThreads; other += width) most = larger(most, shared[other]);
      p.scales[o * s[0] + h * s[1] + b * s[2] + d * s[3]] = codes::scale_of(most, p.format_largest);
    }
    __syncthreads();
  }
}

}  // namespace tessera::cuda::quantise
