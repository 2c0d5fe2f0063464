// The CUDA rows of the kernel table: the production kernels first, then the ladder's rungs, which are
// chosen by name only where a better row can compute the problem too.
#pragma once

#include <vector>

#include "core/kernel.hpp"

namespace tessera::cuda {

std::vector<core::Kernel> kernels();  // empty in a build without CUDA

}  // namespace tessera::cuda
