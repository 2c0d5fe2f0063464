// Four 8-bit codes of a register as four numbers of f16, in two registers: the first and third in `even`, the
// others in `odd`. That is the order that costs least, and as they come from ldmatrix, which moves them in
// pairs: see sm89/products.hpp. To be included after what the types are (ptx/codes.hpp, ptx/whole.hpp).
#pragma once

#include <cuda_fp16.h>

#include "cuda/ptx/codes.hpp"
#include "cuda/ptx/whole.hpp"

namespace tessera::cuda::ptx {

template <class Code>
__device__ inline void widen_apart(unsigned codes, unsigned& even, unsigned& odd) {
  even = widen<Code>(static_cast<unsigned short>(__byte_perm(codes, 0, 0x4420)));
  odd = widen<Code>(static_cast<unsigned short>(__byte_perm(codes, 0, 0x4431)));
}
// The same of 16 bits: both are at their places already.
template <>
__device__ inline void widen_apart<E5m2>(unsigned codes, unsigned& even, unsigned& odd) {
  even = (codes & 0x00ff00ffu) << 8;
  odd = codes & 0xff00ff00u;
}
// The sign turned round, 8 bits count up from -128: as the last bits of 1024 they are exact.
template <int kFirst, int kSecond>
__device__ inline unsigned widen_turned(unsigned turned) {
  const unsigned bits = __byte_perm(turned, 0x64646464u, 0x4040 | kSecond << 8 | kFirst);
  const __half2 x = __hsub2(*reinterpret_cast<const __half2*>(&bits), __half2(1152.0f, 1152.0f));
  return *reinterpret_cast<const unsigned*>(&x);
}
template <>
__device__ inline void widen_apart<I8>(unsigned codes, unsigned& even, unsigned& odd) {
  const unsigned turned = codes ^ 0x80808080u;
  even = widen_turned<0, 2>(turned);
  odd = widen_turned<1, 3>(turned);
}

// In their own order: the first two in `low`.
template <class Code>
__device__ inline void widen_four(unsigned codes, unsigned& low, unsigned& high) {
  low = widen<Code>(static_cast<unsigned short>(codes));
  high = widen<Code>(static_cast<unsigned short>(codes >> 16));
}
template <>
__device__ inline void widen_four<E5m2>(unsigned codes, unsigned& low, unsigned& high) {
  low = __byte_perm(codes, 0, 0x1404);
  high = __byte_perm(codes, 0, 0x3424);
}
template <>
__device__ inline void widen_four<I8>(unsigned codes, unsigned& low, unsigned& high) {
  const unsigned turned = codes ^ 0x80808080u;
  low = widen_turned<0, 1>(turned);
  high = widen_turned<2, 3>(turned);
}

}  // namespace tessera::cuda::ptx
