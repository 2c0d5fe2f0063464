// For the instance files: a rung's kernels of 16-bit elements and head dims 64 and 128, and its row of the
// table.
#pragma once

#include "cuda/ladder/table.hpp"
#include "cuda/tile/element.hpp"

namespace tessera::cuda::ladder {

template <class Kernel>
const void* address(Kernel* kernel) {
  return reinterpret_cast<const void*>(kernel);
}

// What a kernel is an instance for.
template <class T, int dim>
struct Instance {
  using Type = T;
  static constexpr int kDim = dim;
};

// kernel_of(Instance) is the address of one; null where there is none.
template <class KernelOf>
const void* function_of(Element element, int dim, const KernelOf& kernel_of) {
  if (dim != 64 && dim != 128) return nullptr;
  if (element == Element::f16)
    return dim == 64 ? kernel_of(Instance<__half, 64>{}) : kernel_of(Instance<__half, 128>{});
  if (element == Element::bf16)
    return dim == 64 ? kernel_of(Instance<__nv_bfloat16, 64>{}) : kernel_of(Instance<__nv_bfloat16, 128>{});
  return nullptr;
}

template <class Shape, class KernelOf>
Rung rung_of(Element element, int dim, const KernelOf& kernel_of) {
  const void* const function = function_of(element, dim, kernel_of);
  if (function == nullptr) return {nullptr, 0, 0, 0};
  return {function, Shape::kRows, Shape::kThreads, Shape::shared_bytes(dim)};
}

}  // namespace tessera::cuda::ladder
