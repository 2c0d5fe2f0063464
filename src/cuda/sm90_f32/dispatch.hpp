// The kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/sm90_f32/config.hpp"

namespace tessera::cuda::sm90_f32 {

using Functions = FunctionTable<Variant, kVariants>;

// Defined by src/cuda/instances/sm90_f32_*.cu, for the rows of kHeadDims.
template <int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::sm90_f32
