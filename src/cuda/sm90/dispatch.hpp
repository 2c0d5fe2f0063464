// The kernels as the host sees them: one function per dtype, head dim and variant. No CUDA headers.
#pragma once

#include "cuda/sm90/rows.hpp"

namespace tessera::cuda::sm90 {

enum class Element { f16, bf16 };

struct Functions {
  const void* plain;
  const void* tall;   // null if there is none
  const void* split;  // null if there is none, and so is narrow
  const void* narrow;
  const void* general;

  const void* of(Variant variant) const {
    return variant == Variant::plain    ? plain
           : variant == Variant::tall   ? tall
           : variant == Variant::split  ? split
           : variant == Variant::narrow ? narrow
                                        : general;
  }
};

// Defined by src/cuda/instances/sm90_*.cu, for the rows of kHeadDims.
template <Element kElement, int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::sm90
