// What an instance file compiles: the kernels of one dtype and head dim.
#pragma once

#include "cuda/decode/dispatch.hpp"
#include "cuda/decode/kernel.hpp"
#include "cuda/decode/merge.hpp"
#include "cuda/ptx/pdl.hpp"

namespace tessera::cuda::decode {

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

template <Element kElement, int kDim, int kValueDim>
__global__ void __launch_bounds__(config_for(kArch, kDim, kValueDim).tile.threads(),
                                  config_for(kArch, kDim, kValueDim).tile.min_blocks)
    attend(const __grid_constant__ DecodeParams d) {
  extern __shared__ __align__(128) char shared[];
  let_next_start();
  attend_run<config_for(kArch, kDim, kValueDim), tile::ElementType<kElement>>(d, shared);
}

template <Element kElement, int kValueDim>
__global__ void __launch_bounds__(kMergeThreads, 6) merge(const __grid_constant__ DecodeParams d) {
  __shared__ Slots slots;
  __shared__ long long search[8];
  extern __shared__ __align__(128) char shared[];
  let_next_start();
  merge_row<tile::ElementType<kElement>, kValueDim>(d, &slots, search, reinterpret_cast<float*>(shared));
}

template <Element kElement, int kDim, int kValueDim>
Functions functions() {
  Functions f;
  f.attend = reinterpret_cast<const void*>(attend<kElement, kDim, kValueDim>);
  // It does not depend on the keys' dim: compiled once.
  if constexpr (kDim == kValueDim) f.merge = reinterpret_cast<const void*>(merge<kElement, kValueDim>);
  return f;
}

}  // namespace tessera::cuda::decode
