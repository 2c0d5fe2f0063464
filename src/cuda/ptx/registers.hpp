// Special registers, read where they are needed (PTX ISA, "Special Registers"), and values that the compiler
// must not see through: both keep it from holding on to what can be had again for an instruction or two.
#pragma once

namespace tessera::cuda::ptx {

__device__ inline int block_x() {
  int x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  return x;
}
__device__ inline int block_y() {
  int y;
  asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(y));
  return y;
}
__device__ inline int block_z() {
  int z;
  asm volatile("mov.u32 %0, %%ctaid.z;" : "=r"(z));
  return z;
}

__device__ inline int thread_x() {
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

// The same value, of which the compiler knows nothing.
template <class Int>
__device__ inline Int opaque(Int x) {
  asm volatile("" : "+r"(x));
  return x;
}

__device__ inline long long opaque(long long x) {
  asm volatile("" : "+l"(x));
  return x;
}
template <class T>
__device__ inline T* opaque(T* x) {
  asm volatile("" : "+l"(x));
  return x;
}

// A warpgroup gives registers back to the block, or takes more (PTX ISA, "setmaxnreg"). sm_90a.
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace tessera::cuda::ptx
