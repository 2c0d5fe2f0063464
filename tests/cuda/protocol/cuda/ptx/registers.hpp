// Stands in for src/cuda/ptx/registers.hpp: see machine.hpp.
#pragma once

#include "machine.hpp"

namespace tessera::cuda::ptx {

inline int thread_x() { return static_cast<int>(threadIdx.x); }

}  // namespace tessera::cuda::ptx
