#include "cuda/ladder/registers.hpp"

namespace tessera::cuda::ladder {

const void* registers_function(bool bf16, int dim) {
  if (dim == 64) {
    return bf16 ? reinterpret_cast<const void*>(registers<__nv_bfloat16, 64>)
                : reinterpret_cast<const void*>(registers<__half, 64>);
  }
  return bf16 ? reinterpret_cast<const void*>(registers<__nv_bfloat16, 128>)
              : reinterpret_cast<const void*>(registers<__half, 128>);
}

}  // namespace tessera::cuda::ladder
