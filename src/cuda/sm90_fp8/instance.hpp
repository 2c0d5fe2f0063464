// What an instance file compiles: the kernels of one dtype and head dim.
#pragma once

#include "cuda/sm90/kernel.hpp"
#include "cuda/sm90_fp8/coded.hpp"
#include "cuda/sm90_fp8/dispatch.hpp"
#include "cuda/sm90_fp8/loads.hpp"

namespace tessera::cuda::sm90_fp8 {

// Every score is multiplied by its keys' scale.
struct BlockScores : tile::PlainScores {
  static constexpr bool kEveryTile = true;
};

template <Variant kVariant>
struct PolicyOf {
  using Type = tile::PlainScores;
};
template <>
struct PolicyOf<Variant::blocks> {
  using Type = BlockScores;
};
template <>
struct PolicyOf<Variant::changed> {
  using Type = tile::ChangedScores<true, false>;
};
template <>
struct PolicyOf<Variant::general> {
  using Type = tile::ChangedScores<true, true>;
};
template <bool kMaskTensor>
struct ParamsFor {
  using Type = sm90::CodedParams;
};
template <>
struct ParamsFor<true> {
  using Type = sm90::CodedMaskParams;
};
template <Variant kVariant>
using ParamsOf = typename ParamsFor<kVariant == Variant::general>::Type;

template <sm90::Codes kCodes, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kDim, kValueDim, kCodes, kVariant).threads(), 1)
    attend(const __grid_constant__ ParamsOf<kVariant> p) {
  constexpr sm90::Config kConfig = config_for(kDim, kValueDim, kCodes, kVariant);
  static_assert(sizeof(sm90::Shared<kConfig>) + kConfig.mask_bytes + kConfig.walk_bytes() ==
                kConfig.shared_bytes());
  static_assert(kConfig.shared_bytes() <= sm90::kMostSharedBytes);
  extern __shared__ __align__(1024) char shared[];
  sm90::attend_block<kConfig, __half, typename PolicyOf<kVariant>::Type>(p, shared);
}

template <sm90::Codes kCodes, int kDim, int kValueDim>
Functions functions() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  Functions f;
  f[Variant::plain] = address(attend<kCodes, kDim, kValueDim, Variant::plain>);
  f[Variant::blocks] = address(attend<kCodes, kDim, kValueDim, Variant::blocks>);
  f[Variant::changed] = address(attend<kCodes, kDim, kValueDim, Variant::changed>);
  f[Variant::general] = address(attend<kCodes, kDim, kValueDim, Variant::general>);
  return f;
}

}  // namespace tessera::cuda::sm90_fp8
