#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/persistent.hpp"

namespace tessera::cuda::ladder {

const void* persistent_function(Element element, int dim) {
  return function_of(element, dim,
                     [](auto of) { return address(persistent<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
