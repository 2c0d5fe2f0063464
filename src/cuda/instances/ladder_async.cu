// Rung 3: the kernels of this rung, and its row of the table.
#include "cuda/ladder/async.hpp"
#include "cuda/ladder/instance.hpp"

namespace tessera::cuda::ladder {

Rung async(Element element, int dim) {
  return rung_of<TwoStageShape>(element, dim,
                                [](auto of) { return address(async<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
