// What an instance file compiles: the kernels of one format and head dim.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/sm89/dispatch.hpp"
#include "cuda/sm89/kernel.hpp"

namespace tessera::cuda::sm89 {

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArch = 80;
#endif

template <Element>
struct CodeOf;
template <>
struct CodeOf<Element::e4m3> {
  using Type = ptx::E4m3;
};
template <>
struct CodeOf<Element::e5m2> {
  using Type = ptx::E5m2;
};

template <Element kCodes, int kDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kDim).threads(), config_for(kDim).min_blocks())
    attend(const __grid_constant__ CodedParams p) {
  extern __shared__ __align__(128) char shared[];
  if constexpr (sm80::pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  constexpr Config kConfig = config_for(kDim);
  attend_block<kConfig, typename CodeOf<kCodes>::Type, kVariant>(p, shared);
}

template <Element kCodes, int kDim>
Functions functions() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  Functions f;
  f[Variant::plain] = address(attend<kCodes, kDim, Variant::plain>);
  f[Variant::blocks] = address(attend<kCodes, kDim, Variant::blocks>);
  f[Variant::general] = address(attend<kCodes, kDim, Variant::general>);
  return f;
}

}  // namespace tessera::cuda::sm89
