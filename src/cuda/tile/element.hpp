// What an element is on the device, and to float and back, one and two at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/dispatch.hpp"

namespace tessera::cuda::tile {

template <Element>
struct ElementTraits;
template <>
struct ElementTraits<Element::f16> {
  using Type = __half;
};
template <>
struct ElementTraits<Element::bf16> {
  using Type = __nv_bfloat16;
};
template <>
struct ElementTraits<Element::f32> {
  using Type = float;
};
template <Element kElement>
using ElementType = typename ElementTraits<kElement>::Type;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// A 4-byte word holds two neighbouring 16-bit elements, the first in the low half.
template <class T>
__device__ inline float2 unpack(unsigned word);
template <>
__device__ inline float2 unpack<__half>(unsigned word) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
template <>
__device__ inline float2 unpack<__nv_bfloat16>(unsigned word) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&word));
}

template <class T>
__device__ inline unsigned pack(float low, float high);
template <>
__device__ inline unsigned pack<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
template <>
__device__ inline unsigned pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// Two elements at a time: 0 times a number is 0, times anything else NaN. Starting from 0, `so_far` stays 0
// as long as every element is finite.
template <class T>
__device__ inline unsigned note_not_finite(unsigned so_far, unsigned word);
template <>
__device__ inline unsigned note_not_finite<__half>(unsigned so_far, unsigned word) {
  const __half2 sum = __hfma2(*reinterpret_cast<const __half2*>(&word), __half2(0.0f, 0.0f),
                              *reinterpret_cast<const __half2*>(&so_far));
  return *reinterpret_cast<const unsigned*>(&sum);
}
template <>
__device__ inline unsigned note_not_finite<__nv_bfloat16>(unsigned so_far, unsigned word) {
  const __nv_bfloat162 sum =
      __hfma2(*reinterpret_cast<const __nv_bfloat162*>(&word), __nv_bfloat162(0.0f, 0.0f),
              *reinterpret_cast<const __nv_bfloat162*>(&so_far));
  return *reinterpret_cast<const unsigned*>(&sum);
}

}  // namespace tessera::cuda::tile
