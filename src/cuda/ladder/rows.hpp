// The ladder's rows of the kernel table, rung by rung.
#pragma once

#include <vector>

#include "core/kernel.hpp"

namespace tessera::cuda::ladder {

std::vector<core::Kernel> rows();

}  // namespace tessera::cuda::ladder
