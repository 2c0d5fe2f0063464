// The special-function unit (PTX ISA, "Floating Point Instructions": ex2, rcp); on the host, for unit tests,
// what its results come close to.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::ptx {

// 2^x. Results under 2^-126 are 0: no P that small can be seen.
TESSERA_HOST_DEVICE float exp2_approx(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return __builtin_exp2f(x);
#endif
}

// 1 / x, where x is neither tiny nor huge.
TESSERA_HOST_DEVICE float inverse_approx(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

#if defined(__CUDACC__)
// The smaller one; NaN if one is (PTX ISA, "min").
__device__ inline float min_or_nan(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
#endif

// Both are computed: no branch.
TESSERA_HOST_DEVICE float select(bool first, float x, float y) {
#if defined(__CUDA_ARCH__)
  float z;
  asm("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\nselp.f32 %0, %1, %2, p;\n}"
      : "=f"(z)
      : "f"(x), "f"(y), "r"(static_cast<int>(first)));
  return z;
#else
  return first ? x : y;
#endif
}

}  // namespace tessera::cuda::ptx
