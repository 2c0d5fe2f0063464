#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/production_rungs.hpp"
#include "cuda/ladder/scalar.hpp"

namespace tessera::cuda::ladder {

const void* scalar_function(Element element) {
  return element == Element::f32    ? address(scalar<float>)
         : element == Element::bf16 ? address(scalar<__nv_bfloat16>)
                                    : address(scalar<__half>);
}

}  // namespace tessera::cuda::ladder
