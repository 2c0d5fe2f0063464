// For the instance files: a rung's row of the table from its four kernels.
#pragma once

#include "cuda/ladder/table.hpp"

namespace tessera::cuda::ladder {

template <class Shape>
Rung choose(int dim, const void* dim_64, const void* dim_128) {
  if (dim == 64) return {dim_64, Shape::kRows, Shape::kThreads, Shape::shared_bytes(64)};
  if (dim == 128) return {dim_128, Shape::kRows, Shape::kThreads, Shape::shared_bytes(128)};
  return {nullptr, 0, 0, 0};
}

template <class Kernel>
const void* address(Kernel* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace tessera::cuda::ladder
