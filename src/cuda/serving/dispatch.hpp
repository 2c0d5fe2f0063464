// The serving kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/serving/configs.hpp"

namespace tessera::cuda::serving {

struct Functions {
  FunctionTable<Variant, kVariants> attend, merge;  // merge: where pieces leave much behind
};

// Defined by src/cuda/instances/serving_*.cu, for the rows of kHeadDims.
template <Element kElement, int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::serving
