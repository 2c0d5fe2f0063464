// Two floats as codes of 8 bits (PTX ISA, "cvt": e4m3x2, e5m2x2): to the nearest, ties to even; what lies
// beyond the largest number becomes that, NaN 0x7f. From sm_89 on.
#pragma once

#include "cuda/ptx/codes.hpp"

namespace tessera::cuda::ptx {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
// x in the low half.
template <class Code>
__device__ inline unsigned short narrow(float x, float y);
template <>
__device__ inline unsigned short narrow<E4m3>(float x, float y) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(y), "f"(x));
  return pair;
}
template <>
__device__ inline unsigned short narrow<E5m2>(float x, float y) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(y), "f"(x));
  return pair;
}
#endif

}  // namespace tessera::cuda::ptx
