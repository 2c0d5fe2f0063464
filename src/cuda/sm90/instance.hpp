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
struct PolicyOf<Variant::alibi> {
  using Type = tile::AlibiScores;
};
template <>
struct PolicyOf<Variant::softcap> {
  using Type = tile::ChangedScores<false, false>;
};
template <>
struct PolicyOf<Variant::general> {
  using Type = tile::ChangedScores<true, true>;
};
template <bool kStrips, bool kMaskTensor>
struct ParamsFor {
  using Type = Sm90Params;
};
template <>
struct ParamsFor<true, false> {
  using Type = StripParams;
};
template <>
struct ParamsFor<false, true> {
  using Type = Sm90MaskParams;
};
template <int kDim, int kValueDim, Variant kVariant>
using ParamsOf = typename ParamsFor<config_for(kDim, kValueDim, kVariant).strips,
                                    PolicyOf<kVariant>::Type::kMaskTensor>::Type;

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kDim, kValueDim, kVariant).threads(), 1)
    attend(const __grid_constant__ ParamsOf<kDim, kValueDim, kVariant> p) {
  constexpr Config kConfig = config_for(kDim, kValueDim, kVariant);
  static_assert(kConfig.teams * sizeof(Shared<kConfig>) + kConfig.mask_bytes + kConfig.walk_bytes() ==
                kConfig.shared_bytes());
  static_assert(kConfig.shared_bytes() <= kMostSharedBytes);
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
  f[Variant::entries] = entries_function<kElement, kDim, kValueDim>();
  if constexpr (has_options(kDim)) {
    f[Variant::alibi] = address(attend<kElement, kDim, kValueDim, Variant::alibi>);
    f[Variant::softcap] = address(attend<kElement, kDim, kValueDim, Variant::softcap>);
    f[Variant::general] = address(attend<kElement, kDim, kValueDim, Variant::general>);
  }
  if constexpr (has_twin(kDim)) f[Variant::twin] = address(attend<kElement, kDim, kValueDim, Variant::twin>);
  if constexpr (has_tall(kDim)) f[Variant::tall] = address(attend<kElement, kDim, kValueDim, Variant::tall>);
  if constexpr (has_split(kDim)) {
    f[Variant::split] = address(attend_split<kElement, kDim, kValueDim, Variant::split>);
    f[Variant::narrow] = address(attend_split<kElement, kDim, kValueDim, Variant::narrow>);
  }
  return f;
}

}  // namespace tessera::cuda::sm90
