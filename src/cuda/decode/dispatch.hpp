// The decode kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/decode/configs.hpp"

namespace tessera::cuda::decode {

struct Functions {
  const void* attend = nullptr;
  const void* merge = nullptr;  // where both dims are the same
};

// Defined by src/cuda/instances/decode_*.cu, for the rows of kHeadDims.
template <Element kElement, int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::decode
