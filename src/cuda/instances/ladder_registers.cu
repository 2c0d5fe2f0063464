#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/registers.hpp"

namespace tessera::cuda::ladder {

const void* registers_function(Element element, int dim) {
  return function_of(element, dim,
                     [](auto of) { return address(registers<typename decltype(of)::Type, of.kDim>); });
}

}  // namespace tessera::cuda::ladder
