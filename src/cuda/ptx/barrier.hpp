// mbarriers, named barriers and the fences between the ways to shared memory (PTX ISA, "Parallel
// Synchronization and Communication Instructions": mbarrier, barrier; "fence.proxy"). sm_90 and newer; those
// that say so from sm_80 on.
#pragma once

namespace tessera::cuda::ptx {

// From sm_80 on.
__device__ inline void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes the initialised barriers visible to TMA and to the other blocks of the cluster.
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// From sm_80 on.
__device__ inline void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and the phase also waits for so many bytes of copies.
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// What this thread stored to shared memory is there for the tensor cores, which reach it by another way, as
// soon as a barrier says that it was stored.
__device__ inline void fence_for_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Before sm_90 a thread cannot wait for a phase, only ask again.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define TESSERA_ASK_BARRIER "mbarrier.test_wait.parity.shared::cta.b64"
#else
#define TESSERA_ASK_BARRIER "mbarrier.try_wait.parity.shared::cta.b64"
#endif
// Waits until the phase of this parity (0, 1, 0, ...) is complete. From sm_80 on.
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n" TESSERA_ASK_BARRIER
      " done, [%0], %1;\n"
      "@done bra ready;\n"
      "bra again;\n"
      "ready:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
#undef TESSERA_ASK_BARRIER

// Whether it is complete already. Asked early, it saves the wait's own latency later.
__device__ inline bool barrier_done(unsigned barrier, unsigned parity) {
  int done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.s32 %0, 1, 0, done;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Named barriers: some of a block's threads meet. Id 0 is __syncthreads.
__device__ inline void named_sync(int id, int threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int id, int threads) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace tessera::cuda::ptx
