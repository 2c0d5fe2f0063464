// The f32 kernel for GPUs with wgmma (sm_90a). One block per SM: one or two consumer warpgroups with 64 rows
// each, then the producer, a whole warpgroup too. docs/f32.md.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm90_f32/consumer.hpp"
#include "cuda/sm90_f32/producer.hpp"

namespace tessera::cuda::sm90_f32 {

template <Config C, class Policy>
__device__ inline void attend_block(const F32Params& p, char* memory) {
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(memory);
  if (threadIdx.x == 0) start_barriers(shared);
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == C.consumers) {
    if constexpr (C.moves_registers()) ptx::give_registers<C.producer_registers()>();
    if (p.aligned != 0) {
      Producer<C, true>{p, shared}.run();
    } else {
      Producer<C, false>{p, shared}.run();
    }
  } else {
    if constexpr (C.moves_registers()) ptx::take_registers<C.consumer_registers()>();
    Consumer<C, Policy>{p, shared, C.consumers == 1 ? 0 : warpgroup}.run();
  }
}

}  // namespace tessera::cuda::sm90_f32
