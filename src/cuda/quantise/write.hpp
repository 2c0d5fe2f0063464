// The codes: each number divided by its scale, to the nearest. A block takes 64 rows of a head, or more,
// which share a scale if any rows do; transposed codes go through shared memory, so that the rows of a
// channel are written side by side. A pass over the input and one over the codes, bound by memory.
#pragma once

#include "cuda/ptx/narrow.hpp"
#include "cuda/quantise/rows.hpp"
#include "quantise/codes.hpp"

namespace tessera::cuda::quantise {

// x / by, correctly rounded, wherever that decides a code. The reciprocal is known; what a product with it is
// off by shows in a multiply-add, twice: the first makes the quotient right but for a last bit, the second
// right (Markstein). Where a remainder could be too small to be told, or the reciprocal not normal, a
// division.
struct Divisor {
  float by, inverse;

  Divisor() = default;
  __device__ explicit Divisor(float scale) : by(scale), inverse(1.0f / scale) {}
  __device__ bool usual() const { return by >= 0x1p-60f && by <= 0x1p60f; }
  // No |x / by| is much above the format's largest number, but of infinity.
  __device__ float quotient(float x) const {
    float q = x * inverse;
    q = fmaf(fmaf(-q, by, x), inverse, q);
    q = fmaf(fmaf(-q, by, x), inverse, q);
    // Of -0 the sign would be lost.
    return codes::magnitude_of(x) <= codes::kLargestFloat ? copysignf(q, x) : x;
  }
};

// Of the thread's channels; whether all of them are usual.
template <class T, bool kWholeRows, class Divisors>
__device__ inline bool find_divisors(const Rows<T, kWholeRows>& rows, const float* scales, Divisors& to) {
  if (rows.p.by_channel == 0) {
    const Divisor one(*scales);
#pragma unroll
    for (auto& piece : to)
#pragma unroll
      for (Divisor& each : piece) each = one;
    return one.usual();
  }
  typename Rows<T, kWholeRows>::Part scale;
  rows.load_channels(scales, rows.p.scale_strides[3], scale);
  bool usual = true;
#pragma unroll
  for (int i = 0; i < Rows<T, kWholeRows>::kPieces; ++i)
#pragma unroll
    for (int v = 0; v < kWide<T>; ++v) {
      to[i][v] = Divisor(scale[i][v]);
      usual &= to[i][v].usual();
    }
  return usual;
}

// The codes of two numbers, x's in the low byte.
template <class Format>
__device__ inline unsigned encode_two(Format, float x, float y) {
  return codes::encode<Format>(x) | static_cast<unsigned>(codes::encode<Format>(y)) << 8;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
__device__ inline unsigned encode_two(codes::E4M3, float x, float y) { return ptx::narrow<ptx::E4m3>(x, y); }
__device__ inline unsigned encode_two(codes::E5M2, float x, float y) { return ptx::narrow<ptx::E5m2>(x, y); }
#endif

// The codes of one load, four in a word, to a row.
template <int kCount>
__device__ inline void store(const unsigned (&words)[kCount / 4], unsigned char* to, bool whole, int count) {
  if (whole) {
    if constexpr (kCount == 8)
      *reinterpret_cast<uint2*>(to) = uint2{words[0], words[1]};
    else
      *reinterpret_cast<unsigned*>(to) = words[0];
    return;
  }
#pragma unroll
  for (int v = 0; v < kCount; ++v)
    if (v < count) to[v] = static_cast<unsigned char>(words[v / 4] >> 8 * (v % 4));
}

// What lies in shared memory by channels, to the output.
__device__ inline void write_columns(const QuantiseParams& p, const Span& span, const unsigned char* tile,
                                     unsigned char* to) {
  constexpr int kAtOnce = 4, kPieces = kTileRows / kAtOnce;
  const long long* const s = p.output_strides;
  for (int n = static_cast<int>(threadIdx.x); n < p.dim * kPieces; n += kThreads) {
    const int column = n / kPieces, row = n % kPieces * kAtOnce;
    const unsigned char* const from = tile + column * kTilePitch + row;
    unsigned char* const there = to + (span.first + row) * s[2] + column * s[3];
    if (p.whole_columns != 0 && span.first + row + kAtOnce <= span.last) {
      *reinterpret_cast<unsigned*>(there) = *reinterpret_cast<const unsigned*>(from);
      continue;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (span.first + row + i < span.last) there[i * s[2]] = from[i];
  }
}

template <class T, class Format, bool kWholeRows>
__global__ void __launch_bounds__(kThreads, kLeastBlocks<kWholeRows>)
    write_codes(const __grid_constant__ QuantiseParams p) {
  using Rows = Rows<T, kWholeRows>;
  extern __shared__ __align__(16) unsigned char tile[];  // [dim][kTilePitch], where codes are transposed
  follow();
  const long long *const s = p.output_strides, items = spans_of(p, p.tile_rows);
#pragma unroll 1
  for (long long item = blockIdx.x; item < items; item += gridDim.x) {
    Rows rows(p, Span(p, item, p.tile_rows));
    const Span& span = rows.span;
    unsigned char* const to = p.output + span.outer * s[0] + span.head * s[1];
    const long long block = p.scale_rows == 0 ? 0 : Quotient(span.first, p.scale_rows).whole;
    const float* const scales = p.scales + span.outer * p.scale_strides[0] + span.head * p.scale_strides[1] +
                                block * p.scale_strides[2];
#pragma unroll 1
    for (int piece = 0; piece < rows.pieces; piece += Rows::kPieces) {
      rows.begin(piece);
      Divisor divisors[Rows::kPieces][kWide<T>];
      const bool usual = find_divisors(rows, scales, divisors);
      rows.for_each([&](long long row, const typename Rows::Part& x) {
#pragma unroll
        for (int i = 0; i < Rows::kPieces; ++i) {
          const int column = rows.column(i);
          if (column >= p.dim) continue;
          float quotients[kWide<T>];
#pragma unroll
          for (int v = 0; v < kWide<T>; ++v)
            quotients[v] = usual ? divisors[i][v].quotient(x[i][v]) : x[i][v] / divisors[i][v].by;
          unsigned words[kWide<T> / 4] = {};
#pragma unroll
          for (int v = 0; v < kWide<T>; v += 2)
            words[v / 4] |= encode_two(Format{}, quotients[v], quotients[v + 1]) << 8 * (v % 4);
          const int count = p.dim - column < kWide<T> ? p.dim - column : kWide<T>;
          if (p.transposed == 0) {
            store<kWide<T>>(words, to + row * s[2] + column * s[3], p.whole_output != 0, count);
          } else {
#pragma unroll
            for (int v = 0; v < kWide<T>; ++v)
              if (v < count)
                tile[(column + v) * kTilePitch + static_cast<int>(row - span.first)] =
                    static_cast<unsigned char>(words[v / 4] >> 8 * (v % 4));
          }
        }
      });
    }
    if (p.transposed == 0) continue;
    __syncthreads();
    write_columns(p, span, tile, to);
    __syncthreads();
  }
}

}  // namespace tessera::cuda::quantise
