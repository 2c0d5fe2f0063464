// Read-modify-write on global memory (PTX ISA, "atom", "Memory Consistency Model").
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

// What this thread, and threads it has met before, have written is there for whoever adds to the same word
// later, in the same way, and for those whom that one meets then.
__device__ inline unsigned long long add_and_order(unsigned long long* word, unsigned long long n) {
  unsigned long long was;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;" : "=l"(was) : "l"(word), "l"(n) : "memory");
  return was;
}
__device__ inline unsigned long long swap_and_order(unsigned long long* word, unsigned long long expected,
                                                    unsigned long long to) {
  unsigned long long was;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(was)
               : "l"(word), "l"(expected), "l"(to)
               : "memory");
  return was;
}

}  // namespace tessera::cuda::ptx
