// The kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/dispatch.hpp"

namespace tessera::cuda::append {

inline constexpr int kThreads = 128;

// wide: by 16 bytes. Defined by src/cuda/instances/append_all.cu.
const void* function_for(Element element, bool wide);

}  // namespace tessera::cuda::append
