// What a thread moves at a time: 16 bytes or an element, and how two of them, or one, are turned.
#pragma once

#include "cuda/tile/element.hpp"

namespace tessera::cuda::append {

template <class T, bool kWide>
struct ChunkOf {
  using Type = T;
  static constexpr int kElements = 1;
};
template <class T>
struct ChunkOf<T, true> {
  using Type = uint4;
  static constexpr int kElements = 16 / sizeof(T);
};
template <class T, bool kWide>
using Chunk = typename ChunkOf<T, kWide>::Type;

template <class T>
__device__ inline void widen(const T& chunk, float (&x)[1]) {
  x[0] = tile::to_float(chunk);
}
template <class T, int kElements>
__device__ inline void widen(const uint4& chunk, float (&x)[kElements]) {
  const unsigned words[] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (kElements == 4) {
      x[w] = __uint_as_float(words[w]);
    } else {
      const float2 two = tile::unpack<T>(words[w]);
      x[2 * w] = two.x;
      x[2 * w + 1] = two.y;
    }
  }
}

template <class T>
__device__ inline void narrow(const float (&x)[1], T& chunk) {
  chunk = tile::from_float<T>(x[0]);
}
template <class T, int kElements>
__device__ inline void narrow(const float (&x)[kElements], uint4& chunk) {
  unsigned words[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (kElements == 4) {
      words[w] = __float_as_uint(x[w]);
    } else {
      words[w] = tile::pack<T>(x[2 * w], x[2 * w + 1]);
    }
  }
  chunk = make_uint4(words[0], words[1], words[2], words[3]);
}

// So many floats of a table's row, which for more than one begin at a multiple of as many.
template <int kCount>
__device__ inline void load_angles(const float* from, float (&to)[kCount]) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      to[i] = four.x;
      to[i + 1] = four.y;
      to[i + 2] = four.z;
      to[i + 3] = four.w;
    }
  } else if constexpr (kCount == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x;
    to[1] = two.y;
  } else {
    static_assert(kCount == 1);
    to[0] = *from;
  }
}

// As tessera.h has it: each operation rounded, none contracted.
__device__ inline void turn(float& x, float& y, float c, float s) {
  const float first = __fsub_rn(__fmul_rn(x, c), __fmul_rn(y, s));
  y = __fadd_rn(__fmul_rn(y, c), __fmul_rn(x, s));
  x = first;
}

// Pairs of x and y.
template <class T, class Chunk, int kElements>
__device__ inline void turn_two(Chunk& a, Chunk& b, const float* cos, const float* sin,
                                float (&x)[kElements]) {
  float y[kElements], c[kElements], s[kElements];
  load_angles(cos, c);
  load_angles(sin, s);
  widen<T>(a, x);
  widen<T>(b, y);
#pragma unroll
  for (int i = 0; i < kElements; ++i) turn(x[i], y[i], c[i], s[i]);
  narrow<T>(x, a);
  narrow<T>(y, b);
}
// Pairs of neighbours.
template <class T, class Chunk, int kElements>
__device__ inline void turn_one(Chunk& a, const float* cos, const float* sin, float (&x)[kElements]) {
  float c[kElements / 2], s[kElements / 2];
  load_angles(cos, c);
  load_angles(sin, s);
  widen<T>(a, x);
#pragma unroll
  for (int i = 0; i < kElements / 2; ++i) turn(x[2 * i], x[2 * i + 1], c[i], s[i]);
  narrow<T>(x, a);
}

}  // namespace tessera::cuda::append
