// What an instance file compiles: the f32 kernels of one head dim.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm80/instance.hpp"
#include "cuda/sm80_f32/dispatch.hpp"
#include "cuda/sm80_f32/kernel.hpp"

namespace tessera::cuda::sm80_f32 {

using sm80::kArch;

template <int kDim, Variant kVariant>
__global__ void __launch_bounds__(config_for(kArch, kDim, kVariant).threads(),
                                  config_for(kArch, kDim, kVariant).min_blocks)
    attend(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  if constexpr (pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  attend_tile<config_for(kArch, kDim, kVariant)>(p, shared);
}

template <int kDim>
Functions functions() {
  Functions f;
  f[Variant::many] = reinterpret_cast<const void*>(attend<kDim, Variant::many>);
  if constexpr (has_few(kDim)) f[Variant::few] = reinterpret_cast<const void*>(attend<kDim, Variant::few>);
  return f;
}

}  // namespace tessera::cuda::sm80_f32
