// 8-bit floating-point numbers (PTX ISA, "cvt": e4m3, e5m2). e4m3 has no inf: 0x7f and 0xff are NaN, and the
// largest number is 448. Both fit f16 exactly.
#pragma once

#include <cuda_fp16.h>

namespace tessera::cuda::ptx {

struct E4m3 {
  unsigned char bits;
};
struct E5m2 {
  unsigned char bits;
};

// Two numbers in 16 bits, the first in the low half, as two of f16. cvt knows these types from sm_89 on; else
// e4m3 is moved to f16's place, where its exponent is 8 too small, and NaN are put right.
template <class Code>
__device__ inline unsigned widen(unsigned short pair);
template <>
__device__ inline unsigned widen<E4m3>(unsigned short pair) {
  unsigned wide;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"(pair));
#else
  const unsigned apart = (pair & 0xffu) | (pair & 0xff00u) << 8;
  const unsigned nan = __vcmpeq2(apart & 0x7f007fu, 0x7f007fu) & 0x7fff7fffu;
  const unsigned small = (apart & 0x800080u) << 8 | (apart & 0x7f007fu) << 7;
  const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&small), __half2(256.0f, 256.0f));
  wide = *reinterpret_cast<const unsigned*>(&product) | nan;
#endif
  return wide;
}
template <>
__device__ inline unsigned widen<E5m2>(unsigned short pair) {
  return (pair & 0xffu) << 8 | (pair & 0xff00u) << 16;
}

__device__ inline float to_float(E4m3 x) {
  const unsigned wide = widen<E4m3>(x.bits);
  return __half2float(reinterpret_cast<const __half2*>(&wide)->x);
}
__device__ inline float to_float(E5m2 x) {
  const unsigned wide = widen<E5m2>(x.bits);
  return __half2float(reinterpret_cast<const __half2*>(&wide)->x);
}

}  // namespace tessera::cuda::ptx
