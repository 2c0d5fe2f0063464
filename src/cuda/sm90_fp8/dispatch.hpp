// The kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/sm90_fp8/configs.hpp"

namespace tessera::cuda::sm90_fp8 {

using Functions = FunctionTable<Variant, kVariants>;

// Defined by src/cuda/instances/sm90_fp8_*.cu, for the rows of kHeadDims.
template <sm90::Codes kCodes, int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::sm90_fp8
