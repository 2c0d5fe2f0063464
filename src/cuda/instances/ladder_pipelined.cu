#include "cuda/ladder/pipelined.hpp"

namespace tessera::cuda::ladder {

const void* pipelined_function(bool bf16, int dim) {
  if (dim == 64) {
    return bf16 ? reinterpret_cast<const void*>(pipelined<__nv_bfloat16, 64>)
                : reinterpret_cast<const void*>(pipelined<__half, 64>);
  }
  return bf16 ? reinterpret_cast<const void*>(pipelined<__nv_bfloat16, 128>)
              : reinterpret_cast<const void*>(pipelined<__half, 128>);
}

}  // namespace tessera::cuda::ladder
