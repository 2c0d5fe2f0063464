// Rung 7: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/tensor_pv.hpp"

namespace tessera::cuda::ladder {

Rung tensor_pv(Element element, int dim) {
  return rung_of<StripShape>(
      element, dim, [](auto of) { return address(tensor_pv<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
