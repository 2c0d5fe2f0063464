// What an instance file compiles: the kernels of one dtype and head dim.
#pragma once

#include "cuda/ptx/dependent_launch.hpp"
#include "cuda/sm80/dispatch.hpp"
#include "cuda/sm80/kernel.hpp"

namespace tessera::cuda::sm80 {

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArch = 80;  // the host pass of the compiler: launch bounds mean nothing there
#endif

template <Element kElement>
struct ElementType;
template <>
struct ElementType<Element::f16> {
  using Type = __half;
};
template <>
struct ElementType<Element::bf16> {
  using Type = __nv_bfloat16;
};

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kArch, kDim, kValueDim, kVariant).threads(),
                                  config_for(kArch, kDim, kValueDim, kVariant).min_blocks)
    attend(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  if constexpr (starts_early(kArch)) {
    ptx::let_next_kernel_start();
    ptx::await_kernels_before();
  }
  attend_tile<config_for(kArch, kDim, kValueDim, kVariant), typename ElementType<kElement>::Type,
              kVariant == Variant::general>(p, shared, GridPlace{});
}

template <Element kElement, int kDim, int kValueDim>
Functions functions() {
  Functions f{reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::plain>), nullptr,
              reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::general>)};
  if constexpr (has_small(kDim)) {
    f.small = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::small>);
  }
  return f;
}

}  // namespace tessera::cuda::sm80
