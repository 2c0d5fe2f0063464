// Read-modify-write on global memory (PTX ISA, "atom").
#pragma once

namespace tessera::cuda::ptx {

// What was there before.
__device__ inline int fetch_add(int* at, int more) {
  int before;
  asm volatile("atom.global.relaxed.gpu.add.s32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(at), "r"(more)
               : "memory");
  return before;
}

}  // namespace tessera::cuda::ptx
