// What an instance file compiles: the kernels of one dtype and head dim.
#pragma once

#include "cuda/sm90/dispatch.hpp"
#include "cuda/sm90/kernel.hpp"
#include "cuda/sm90/split.hpp"

namespace tessera::cuda::sm90 {

template <Variant kVariant>
struct PolicyOf {
  using Type = tile::PlainScores;
};
template <>
struct PolicyOf<Variant::general> {
  using Type = tile::OptionScores;
};

template <int kDim>
struct ParamsOf {
  using Type = Sm90Params;
};
template <>
struct ParamsOf<80> {
  using Type = StripParams;
};

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kDim, kValueDim, kVariant).threads(), 1)
    attend(const __grid_constant__ typename ParamsOf<kDim>::Type p) {
  constexpr Config kConfig = config_for(kDim, kValueDim, kVariant);
  static_assert(kConfig.teams * sizeof(Shared<kConfig>) == kConfig.shared_bytes());
  static_assert(kConfig.shared_bytes() <= kMostSharedBytes);
  static_assert(!kConfig.strips || sizeof(p) == sizeof(StripParams));
  extern __shared__ __align__(1024) char shared[];
  attend_block<kConfig, tile::ElementType<kElement>, typename PolicyOf<kVariant>::Type>(p, shared);
}

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(split_config_for(kDim, kValueDim, kVariant).threads(), 1)
    attend_split(const __grid_constant__ Sm90Params p) {
  constexpr SplitConfig kConfig = split_config_for(kDim, kValueDim, kVariant);
  static_assert(sizeof(SplitShared<kConfig>) == kConfig.shared_bytes());
  static_assert(sizeof(SplitShared<kConfig>) <= kMostSharedBytes);
  extern __shared__ __align__(1024) char shared[];
  attend_split_block<kConfig, tile::ElementType<kElement>>(p, shared);
}

template <Element kElement, int kDim, int kValueDim>
Functions functions() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  Functions f;
  f[Variant::plain] = address(attend<kElement, kDim, kValueDim, Variant::plain>);
  if constexpr (has_general(kDim))
    f[Variant::general] = address(attend<kElement, kDim, kValueDim, Variant::general>);
  if constexpr (has_twin(kDim)) f[Variant::twin] = address(attend<kElement, kDim, kValueDim, Variant::twin>);
  if constexpr (has_tall(kDim)) f[Variant::tall] = address(attend<kElement, kDim, kValueDim, Variant::tall>);
  if constexpr (has_split(kDim)) {
    f[Variant::split] = address(attend_split<kElement, kDim, kValueDim, Variant::split>);
    f[Variant::narrow] = address(attend_split<kElement, kDim, kValueDim, Variant::narrow>);
  }
  return f;
}

}  // namespace tessera::cuda::sm90
