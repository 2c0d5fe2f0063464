// What an instance file compiles: the kernels of one dtype and head dim.
#pragma once

#include <type_traits>

#include "cuda/sm90/dispatch.hpp"
#include "cuda/sm90/kernel.hpp"
#include "cuda/sm90/split.hpp"

namespace tessera::cuda::sm90 {

template <Element kElement>
using TypeOf = std::conditional_t<kElement == Element::f16, __half, __nv_bfloat16>;

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kDim, kValueDim, kVariant).threads(), 1)
    attend(const __grid_constant__ Sm90Params p) {
  constexpr Config kConfig = config_for(kDim, kValueDim, kVariant);
  static_assert(sizeof(Shared<kConfig>) == shared_bytes(kConfig));
  static_assert(sizeof(Shared<kConfig>) <= kMostSharedBytes);
  extern __shared__ __align__(1024) char shared[];
  attend_block<kConfig, TypeOf<kElement>, kVariant == Variant::general>(p, shared);
}

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kDim, kValueDim, kVariant).split_threads(), 1)
    attend_split(const __grid_constant__ Sm90Params p) {
  constexpr Config kConfig = config_for(kDim, kValueDim, kVariant);
  static_assert(sizeof(SplitShared<kConfig>) == split_shared_bytes(kConfig));
  static_assert(sizeof(SplitShared<kConfig>) <= kMostSharedBytes);
  extern __shared__ __align__(1024) char shared[];
  attend_split_block<kConfig, TypeOf<kElement>>(p, shared);
}

template <Element kElement, int kDim, int kValueDim>
Functions functions() {
  Functions f{};
  f.plain = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::plain>);
  f.general = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::general>);
  if constexpr (has_tall(kDim)) {
    f.tall = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::tall>);
  }
  if constexpr (has_split(kDim)) {
    f.split = reinterpret_cast<const void*>(attend_split<kElement, kDim, kValueDim, Variant::split>);
    f.narrow = reinterpret_cast<const void*>(attend_split<kElement, kDim, kValueDim, Variant::narrow>);
  }
  return f;
}

}  // namespace tessera::cuda::sm90
