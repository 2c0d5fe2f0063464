// What an instance file compiles: the kernels of one dtype and head dim.
#pragma once

#include "cuda/serving/dispatch.hpp"
#include "cuda/serving/kernel.hpp"
#include "cuda/serving/merge_rows.hpp"

namespace tessera::cuda::serving {

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArch = 80;  // the host pass of the compiler: launch bounds mean nothing there
#endif

__device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  ptx::launch_dependents();
#endif
}

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kArch, kDim, kValueDim, kVariant).threads(),
                                  config_for(kArch, kDim, kValueDim, kVariant).min_blocks)
    attend(const __grid_constant__ ServingParams d) {
  constexpr Config kConfig = config_for(kArch, kDim, kValueDim, kVariant);
  static_assert(sizeof(Shared<kConfig>) <= kConfig.shared_bytes());
  extern __shared__ __align__(1024) char shared[];
  let_next_start();
  attend_block<kConfig, tile::ElementType<kElement>, takes_options(kVariant)>(d, shared);
}

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(merge_threads(config_for(kArch, kDim, kValueDim, kVariant)))
    merge_rows(const __grid_constant__ ServingParams d) {
  constexpr Config kConfig = config_for(kArch, kDim, kValueDim, kVariant);
  let_next_start();
  merge_rows_of<kConfig, tile::ElementType<kElement>, takes_options(kVariant)>(d);
}

template <Element kElement, int kDim, int kValueDim>
Functions functions() {
  const auto address = [](auto* kernel) { return reinterpret_cast<const void*>(kernel); };
  Functions f;
  f.attend[Variant::few] = address(attend<kElement, kDim, kValueDim, Variant::few>);
  f.attend[Variant::few_options] = address(attend<kElement, kDim, kValueDim, Variant::few_options>);
  if constexpr (has_more(kDim)) {
    f.attend[Variant::more] = address(attend<kElement, kDim, kValueDim, Variant::more>);
    f.attend[Variant::more_options] = address(attend<kElement, kDim, kValueDim, Variant::more_options>);
    f.merge[Variant::more] = address(merge_rows<kElement, kDim, kValueDim, Variant::more>);
    f.merge[Variant::more_options] = address(merge_rows<kElement, kDim, kValueDim, Variant::more_options>);
  } else if constexpr (is_latent(kDim)) {
    f.merge[Variant::few] = address(merge_rows<kElement, kDim, kValueDim, Variant::few>);
    f.merge[Variant::few_options] = address(merge_rows<kElement, kDim, kValueDim, Variant::few_options>);
  }
  return f;
}

}  // namespace tessera::cuda::serving
