// The kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/sm89/configs.hpp"

namespace tessera::cuda::sm89 {

using Functions = FunctionTable<Variant, kVariants>;

// Defined by src/cuda/instances/sm89_*.cu, for e4m3 and e5m2 and the rows of kDims.
template <Element kCodes, int kDim>
Functions functions();

}  // namespace tessera::cuda::sm89
