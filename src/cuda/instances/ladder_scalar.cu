#include "cuda/ladder/production_rungs.hpp"
#include "cuda/ladder/scalar.hpp"

namespace tessera::cuda::ladder {

const void* scalar_function(int element_bytes, bool bf16) {
  if (element_bytes == 4) return reinterpret_cast<const void*>(scalar<float>);
  return bf16 ? reinterpret_cast<const void*>(scalar<__nv_bfloat16>)
              : reinterpret_cast<const void*>(scalar<__half>);
}

}  // namespace tessera::cuda::ladder
