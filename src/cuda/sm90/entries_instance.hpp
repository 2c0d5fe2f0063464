// What instances/sm90_entries.cu compiles: the kernels for ragged and paged batches.
#pragma once

#include "cuda/sm90/dispatch.hpp"
#include "cuda/sm90/entries_producer.hpp"
#include "cuda/sm90/kernel.hpp"

namespace tessera::cuda::sm90 {

template <Element kElement, int kDim, int kValueDim>
__global__ void __launch_bounds__(config_for(kDim, kValueDim, Variant::entries).threads(), 1)
    attend_entries(const __grid_constant__ EntriesParams p) {
  constexpr Config kConfig = config_for(kDim, kValueDim, Variant::entries);
  static_assert(sizeof(Shared<kConfig>) == kConfig.shared_bytes());
  static_assert(kConfig.shared_bytes() <= kMostSharedBytes);
  extern __shared__ __align__(1024) char shared[];
  attend_block<kConfig, tile::ElementType<kElement>, tile::PlainScores>(p, shared);
}

template <Element kElement, int kDim, int kValueDim>
const void* entries_function() {
  return reinterpret_cast<const void*>(attend_entries<kElement, kDim, kValueDim>);
}

}  // namespace tessera::cuda::sm90
