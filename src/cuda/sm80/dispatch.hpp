// The production kernels as the host sees them: one function per dtype, head dim and variant. No CUDA
// headers.
#pragma once

#include "cuda/sm80/rows.hpp"

namespace tessera::cuda::sm80 {

enum class Element { f16, bf16 };

struct Functions {
  const void* plain;
  const void* small;  // null if there is none
  const void* general;

  const void* of(Variant variant) const {
    return variant == Variant::plain ? plain : variant == Variant::small ? small : general;
  }
};

// Defined by src/cuda/instances/sm80_*.cu, for the rows of kHeadDims.
template <Element kElement, int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::sm80
