// What an instance file compiles: the kernels of one head dim.
#pragma once

#include "cuda/sm90/config.hpp"
#include "cuda/sm90_f32/dispatch.hpp"
#include "cuda/sm90_f32/kernel.hpp"

namespace tessera::cuda::sm90_f32 {

template <Variant kVariant>
struct PolicyOf {
  using Type = tile::PlainScores;
};
template <>
struct PolicyOf<Variant::general> {
  using Type = tile::OptionScores;
};

template <int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kDim, kValueDim, kVariant).threads(), 1)
    attend(const __grid_constant__ F32Params p) {
  constexpr Config kConfig = config_for(kDim, kValueDim, kVariant);
  static_assert(sizeof(Shared<kConfig>) == kConfig.shared_bytes());
  static_assert(sizeof(Shared<kConfig>) <= sm90::kMostSharedBytes);
  extern __shared__ __align__(1024) char shared[];
  attend_block<kConfig, typename PolicyOf<kVariant>::Type>(p, shared);
}

template <int kDim, int kValueDim>
Functions functions() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  Functions f;
  f[Variant::plain] = address(attend<kDim, kValueDim, Variant::plain>);
  f[Variant::general] = address(attend<kDim, kValueDim, Variant::general>);
  return f;
}

}  // namespace tessera::cuda::sm90_f32
