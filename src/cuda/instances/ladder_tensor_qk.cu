// Rung 5: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/tensor_qk.hpp"

namespace tessera::cuda::ladder {

Rung tensor_qk(Element element, int dim) {
  return rung_of<TensorQkShape>(
      element, dim, [](auto of) { return address(tensor_qk<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
