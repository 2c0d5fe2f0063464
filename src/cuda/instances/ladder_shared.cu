// Rung 2: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/shared.hpp"

namespace tessera::cuda::ladder {

Rung shared_padded(Element element, int dim) {
  return rung_of<SharedPaddedShape>(
      element, dim, [](auto of) { return address(shared_padded<typename decltype(of)::Type, of.kDim>); });
}

Rung shared(Element element, int dim) {
  return rung_of<SharedShape>(element, dim,
                              [](auto of) { return address(shared<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
