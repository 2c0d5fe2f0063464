// Rung 6: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/tensor_tiled.hpp"

namespace tessera::cuda::ladder {

Rung tensor_tiled(Element element, int dim) {
  return rung_of<StripShape>(
      element, dim, [](auto of) { return address(tensor_tiled<typename decltype(of)::Type, of.kDim>); });
}

Rung tensor_tiled_f16(Element element, int dim) {
  if (element != Element::f16) return {nullptr, 0, 0, 0};
  return rung_of<StripShape>(element, dim,
                             [](auto of) { return address(tensor_tiled_f16<__half, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
