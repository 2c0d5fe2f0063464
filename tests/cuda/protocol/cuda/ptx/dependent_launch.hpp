// Stands in for src/cuda/ptx/dependent_launch.hpp: no kernels come before.
#pragma once

namespace tessera::cuda::ptx {

inline void await_kernels_before() {}

}  // namespace tessera::cuda::ptx
