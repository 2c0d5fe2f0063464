// Rung 4: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/vector.hpp"

namespace tessera::cuda::ladder {

Rung vector(Element element, int dim) {
  return rung_of<TwoStageShape>(
      element, dim, [](auto of) { return address(vector<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
