// The CUDA backend: GPUs, and their rows of the kernel table: production first, then the ladder's rungs.
#pragma once

#include <vector>

#include "core/backend.hpp"

namespace tessera::cuda {

const core::Backend& backend();

std::vector<core::Kernel> kernels();  // empty in a build without CUDA

}  // namespace tessera::cuda
