// The CPU backend's rows of the kernel table: one per instruction set compiled in, best first.
#pragma once

#include <vector>

#include "core/kernel.hpp"

namespace tessera::cpu {

std::vector<core::Kernel> kernels();

}  // namespace tessera::cpu
