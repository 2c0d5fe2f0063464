// What instances/sm90_widened.cu compiles: the kernels over K and V of 8 bits beside Q of 16.
#pragma once

#include "cuda/sm90/dispatch.hpp"
#include "cuda/sm90/entries_producer.hpp"
#include "cuda/sm90/kernel.hpp"
#include "cuda/sm90/widen.hpp"
#include "cuda/sm90/widened.hpp"

namespace tessera::cuda::sm90 {

template <Element kElement, int kDim>
inline constexpr Config kWidenedConfig = widened_config_for(kDim, kElement == Element::bf16
                                                                      ? Codes::beside_bf16
                                                                      : Codes::beside_f16);

template <Element kElement, int kDim>
__global__ void __launch_bounds__(kWidenedConfig<kElement, kDim>.threads(), 1)
    attend_widened(const __grid_constant__ WidenedParams p) {
  constexpr Config kConfig = kWidenedConfig<kElement, kDim>;
  static_assert(sizeof(Shared<kConfig>) == kConfig.shared_bytes());
  static_assert(kConfig.shared_bytes() <= kMostSharedBytes);
  extern __shared__ __align__(1024) char shared[];
  attend_block<kConfig, __half, tile::PlainScores>(p, shared);
}

template <Element kElement, int kDim>
const void* widened_function() {
  return reinterpret_cast<const void*>(attend_widened<kElement, kDim>);
}

}  // namespace tessera::cuda::sm90
