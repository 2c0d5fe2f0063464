#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/pipelined.hpp"

namespace tessera::cuda::ladder {

const void* pipelined_function(Element element, int dim) {
  return function_of(element, dim,
                     [](auto of) { return address(pipelined<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
