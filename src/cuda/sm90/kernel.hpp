// The production kernel for GPUs with wgmma and TMA (sm_90a). One block per SM: two
// to four consumer warpgroups with 64 rows each, then the producer, of which one thread a team fills the
// rings; over K and V of 8 bits, then who widens them. docs/sm90.md has the timeline.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/consumer_rows.hpp"
#include "cuda/sm90/producer.hpp"

namespace tessera::cuda::sm90 {

// In entries_producer.hpp and widen.hpp, for kernels that need it.
template <Config C>
__device__ void produce_entries(const EntriesParams& p, Shared<C>& shared, int warp);
template <Config C>
struct Widener;

template <Config C, class T, class Policy>
__device__ inline void attend_block(const Sm90Params& p, char* memory) {
  static_assert(C.registers_suffice());
  auto* const shared = reinterpret_cast<Shared<C>*>(memory);  // of each team
  if (threadIdx.x == 0) {
    ptx::prefetch_tensor_map(&p.query);
    ptx::prefetch_tensor_map(&p.key);
    ptx::prefetch_tensor_map(&p.value);
    for (int t = 0; t < C.teams; ++t) start_barriers(shared[t]);
  }
  if constexpr (C.strips) clear_strips(shared[0]);
  ptx::launch_dependents();
  // Whoever reads or writes global memory later awaits them later. (What rotates is ALiBi, whose slopes are
  // read.)
  if constexpr (!C.entries)
    if (Policy::kEveryTile || Policy::kRotates || C.coded() || tile::reads_lengths(p.problem))
      ptx::wait_for_dependencies();
  __syncthreads();
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if constexpr (C.widens())
    if (warpgroup > C.warpgroups()) {
      ptx::give_registers<C.widener_registers()>();
      Widener<C>{shared[0]}.run(static_cast<const WidenedParams&>(p).codes);
      return;
    }
  if (warpgroup == C.warpgroups()) {
    ptx::give_registers<C.producer_registers()>();
    const int warp = static_cast<int>(threadIdx.x) / 32 - 4 * C.warpgroups();
    if constexpr (C.entries) {
      produce_entries<C>(static_cast<const EntriesParams&>(p), shared[0], warp);
    } else if constexpr (Policy::kMaskTensor) {
      if (warp == 0) {
        MaskProducer<C> producer{{p, shared[0], 0}};
        producer.run();
      }
    } else if (warp < C.teams && threadIdx.x % 32 == 0) {
      Producer<C, Policy::kRotates> producer{p, shared[warp], warp};
      producer.run();
    }
  } else {
    ptx::take_registers<C.consumer_registers()>();
    const int team = C.teams == 1 ? 0 : warpgroup / C.consumers;
    Consumer<C, T, Policy> consumer{p, shared[team], team, warpgroup - team * C.consumers};
    consumer.run();
  }
}

}  // namespace tessera::cuda::sm90
