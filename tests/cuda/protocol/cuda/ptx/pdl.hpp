// Stands in for src/cuda/ptx/pdl.hpp: no kernels come before.
#pragma once

namespace tessera::cuda::ptx {

inline void wait_for_dependencies() {}

}  // namespace tessera::cuda::ptx
