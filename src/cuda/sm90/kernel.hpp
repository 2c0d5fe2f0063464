// The production kernel for GPUs with wgmma and TMA (sm_90a). One block per SM: two
// to four consumer warpgroups with 64 rows each, then the producer, whose first thread fills the rings.
// docs/sm90.md has the timeline.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/consumer.hpp"
#include "cuda/sm90/producer.hpp"

namespace tessera::cuda::sm90 {

template <Config C, class T, class Policy>
__device__ inline void attend_block(const Sm90Params& p, char* memory) {
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(memory);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&p.query);
    ptx::prefetch_tensor_map(&p.key);
    ptx::prefetch_tensor_map(&p.value);
    start_barriers(shared);
  }
  ptx::launch_dependents();
  // Whoever reads or writes global memory later awaits them later. (What rotates is ALiBi, whose slopes are
  // read.)
  if (Policy::kEveryTile || Policy::kRotates || tile::has_key_lengths(p.problem))
    ptx::wait_for_dependencies();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == C.consumers) {
    ptx::give_registers<C.producer_registers()>();
    if constexpr (Policy::kMaskTensor) {
      if (threadIdx.x < 128 * C.consumers + 32) {
        MaskProducer<C> producer{p, shared};
        producer.run();
      }
    } else if (threadIdx.x == 128 * C.consumers) {
      Producer<C, Policy::kRotates> producer{p, shared};
      producer.run();
    }
  } else {
    ptx::take_registers<C.consumer_registers()>();
    Consumer<C, T, Policy> consumer{p, shared, warpgroup};
    consumer.run();
  }
}

}  // namespace tessera::cuda::sm90
