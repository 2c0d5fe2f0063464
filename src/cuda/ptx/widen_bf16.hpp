// Four 8-bit codes of a register as four numbers of bf16, in their own order. bf16 holds them all. Exponents
// are moved to bf16's place and are too small there by what a product puts right; inf and NaN come out as
// large numbers, and who widens has to look for them. To be included after what the types are
// (ptx/codes.hpp, ptx/whole.hpp).
#pragma once

#include <cuda_bf16.h>

#include "cuda/ptx/apart.hpp"

namespace tessera::cuda::ptx {

// PTX ISA, "Half Precision Floating Point Instructions: fma": subnormal numbers are supported.
__device__ inline unsigned fma_bf16_pair(unsigned a, unsigned b, unsigned c) {
  unsigned d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// Codes stand in the high bytes of both halves.
template <int kShift, unsigned kPower>
__device__ inline unsigned float_code_pair(unsigned codes) {
  constexpr unsigned kMinusZeros = 0x80008000u;
  return fma_bf16_pair((codes & 0x80008000u) | (codes & 0x7f007f00u) >> kShift, kPower, kMinusZeros);
}

template <class Code>
__device__ inline void widen_four_bf16(unsigned codes, unsigned& low, unsigned& high);
template <>
__device__ inline void widen_four_bf16<E4m3>(unsigned codes, unsigned& low, unsigned& high) {
  constexpr unsigned k2To120 = 0x7b807b80u;
  low = float_code_pair<4, k2To120>(__byte_perm(codes, 0, 0x1404));
  high = float_code_pair<4, k2To120>(__byte_perm(codes, 0, 0x3424));
}
template <>
__device__ inline void widen_four_bf16<E5m2>(unsigned codes, unsigned& low, unsigned& high) {
  constexpr unsigned k2To112 = 0x77807780u;
  low = float_code_pair<3, k2To112>(__byte_perm(codes, 0, 0x1404));
  high = float_code_pair<3, k2To112>(__byte_perm(codes, 0, 0x3424));
}
// The last 7 bits as those of 128, less 128, or 256 where the sign is set: that is the same bits with it.
template <>
__device__ inline void widen_four_bf16<I8>(unsigned codes, unsigned& low, unsigned& high) {
  constexpr unsigned kOnes = 0x3f803f80u;
  const auto number = [](unsigned pair) {
    return fma_bf16_pair(pair & 0xff7fff7fu, kOnes, (pair & 0xff80ff80u) | 0x80008000u);
  };
  low = number(__byte_perm(codes, 0x43434343u, 0x4140));
  high = number(__byte_perm(codes, 0x43434343u, 0x4342));
}

// Bits 7, 15, 23, 31 say of four codes which are inf or NaN; others mean nothing.
template <class Code>
__device__ inline unsigned not_finite(unsigned codes);
template <>
__device__ inline unsigned not_finite<E4m3>(unsigned codes) {
  return (codes & 0x7f7f7f7fu) + 0x01010101u;
}
template <>
__device__ inline unsigned not_finite<E5m2>(unsigned codes) {
  return (codes & 0x7f7f7f7fu) + 0x04040404u;
}
template <>
__device__ inline unsigned not_finite<I8>(unsigned) {
  return 0;
}

// The same by way of f16 and f32, where there may be such.
template <class Code>
__device__ inline void widen_any_bf16(unsigned codes, unsigned& low, unsigned& high) {
  unsigned of_f16[2];
  widen_four<Code>(codes, of_f16[0], of_f16[1]);
  const auto of_bf16 = [](unsigned pair) {
    const float2 x = __half22float2(*reinterpret_cast<const __half2*>(&pair));
    const __nv_bfloat162 y = __floats2bfloat162_rn(x.x, x.y);
    return *reinterpret_cast<const unsigned*>(&y);
  };
  low = of_bf16(of_f16[0]);
  high = of_bf16(of_f16[1]);
}

}  // namespace tessera::cuda::ptx
