// The f32 kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/sm80_f32/configs.hpp"

namespace tessera::cuda::sm80_f32 {

using Functions = FunctionTable<Variant, kVariants>;

// Defined by src/cuda/instances/sm80_f32_*.cu, for the rows of kHeadDims.
template <int kDim>
Functions functions();

}  // namespace tessera::cuda::sm80_f32
