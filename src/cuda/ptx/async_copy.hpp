// cp.async: global to shared memory without passing through registers (PTX ISA, "Data Movement and
// Conversion Instructions: cp.async", "cp.async.commit_group", "cp.async.wait_group"). sm_80 and newer.
#pragma once

namespace tessera::cuda::ptx {

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Copies take 32-bit shared-memory addresses: half the registers of a pointer.
// 16 bytes, past L1 (.cg). When !valid nothing is read and 16 zero bytes are written.
__device__ inline void copy_async_16(unsigned shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// The same with a policy of cache_policy.hpp.
__device__ inline void copy_async_16(unsigned shared, const void* global, bool valid,
                                     unsigned long long policy) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared), "l"(global),
               "r"(bytes), "l"(policy)
               : "memory");
}

// 4 bytes, through L1 (.ca is the only form for this size).
__device__ inline void copy_async_4(unsigned shared, const void* global, bool valid) {
  const int bytes = valid ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}

// 16 bytes from registers.
__device__ inline uint4 load_shared_16(unsigned shared) {
  uint4 words;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(shared)
               : "memory");
  return words;
}
__device__ inline void store_shared_16(unsigned shared, uint4 words) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

// A pair of integers.
__device__ inline void store_shared_8(unsigned shared, int x, int y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared), "r"(x), "r"(y) : "memory");
}
__device__ inline int2 load_shared_8(unsigned shared) {
  int2 pair;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(pair.x), "=r"(pair.y) : "r"(shared) : "memory");
  return pair;
}

__device__ inline unsigned load_shared_4(unsigned shared) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
  return word;
}

__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `pending` of the newest groups are still in flight.
template <int pending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace tessera::cuda::ptx
