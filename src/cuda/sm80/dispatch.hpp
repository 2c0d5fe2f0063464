// The production kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/sm80/configs.hpp"

namespace tessera::cuda::sm80 {

using Functions = FunctionTable<Variant, kVariants>;

// Defined by src/cuda/instances/sm80_*.cu, for the rows of kHeadDims.
template <Element kElement, int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::sm80
