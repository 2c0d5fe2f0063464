// The kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/sm90/configs.hpp"

namespace tessera::cuda::sm90 {

using Functions = FunctionTable<Variant, kVariants>;

// Defined by src/cuda/instances/sm90_*.cu, for the rows of kHeadDims.
template <Element kElement, int kDim, int kValueDim>
Functions functions();

// The same of instances/sm90_entries.cu.
template <Element kElement, int kDim, int kValueDim>
const void* entries_function();

// Of instances/sm90_widened.cu: beside queries of this type, for the rows of kWidenedHeadDims.
template <Element kElement, int kDim>
const void* widened_function();

}  // namespace tessera::cuda::sm90
