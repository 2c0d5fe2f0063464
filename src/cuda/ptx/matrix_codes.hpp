// mma.sync m16n8k32 of 8-bit floats (PTX ISA, "Warp Level Matrix Instructions: mma"). sm_89 and newer.
// A register has four neighbouring codes where m16n8k16 has two numbers of 16 bits: byte by byte the operands
// are dealt out alike, so the maps of tile/fragments.hpp and ldmatrix serve both.
#pragma once

#include "cuda/ptx/codes.hpp"

namespace tessera::cuda::ptx {

// D[16x8] += A[16x32] * B[32x8]. Ada adds with 13 fraction bits, so D is short of a float's; Hopper widens
// the codes to f16 and adds with those of a float (docs/emulator.md, "How 8-bit floats are summed").
template <class Code>
__device__ inline void mma_codes(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);

template <>
__device__ inline void mma_codes<E4m3>(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ inline void mma_codes<E5m2>(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tessera::cuda::ptx
