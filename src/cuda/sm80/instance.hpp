// What an instance file compiles: the kernels of one dtype and head dim.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm80/dispatch.hpp"
#include "cuda/sm80/kernel.hpp"

namespace tessera::cuda::sm80 {

#if defined(__CUDA_ARCH__)
inline constexpr int kArch = __CUDA_ARCH__ / 10;
#else
inline constexpr int kArch = 80;  // the host pass of the compiler: launch bounds mean nothing there
#endif

template <Element kElement, int kDim, int kValueDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kArch, kDim, kValueDim, kVariant).threads(),
                                  config_for(kArch, kDim, kValueDim, kVariant).min_blocks)
    attend(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  if constexpr (pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  constexpr Config kConfig = config_for(kArch, kDim, kValueDim, kVariant);
  using T = tile::ElementType<kElement>;
  if constexpr (in_parts(kDim)) {
    attend_tile<kConfig, T, tile::OptionScores, Rows::of_any_alignment>(p, shared, PartTile<kValueDim>{});
  } else if constexpr (kVariant == Variant::general) {
    attend_tile<kConfig, T, tile::OptionScores, Rows::of_any_alignment>(p, shared, GridTile{});
  } else {
    attend_tile<kConfig, T, tile::PlainScores, Rows::of_16_bytes>(p, shared, GridTile{});
  }
}

template <Element kElement, int kDim, int kValueDim>
Functions functions() {
  Functions f;
  if constexpr (!in_parts(kDim))
    f[Variant::plain] = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::plain>);
  f[Variant::general] = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::general>);
  if constexpr (has_small(kDim))
    f[Variant::small] = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim, Variant::small>);
  return f;
}

}  // namespace tessera::cuda::sm80
