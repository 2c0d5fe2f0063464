// Rung 3: the kernels of this rung, and its row of the table.
#include "cuda/ladder/async.hpp"
#include "cuda/ladder/instance.hpp"

namespace tessera::cuda::ladder {

Rung async(bool bf16, int dim) {
  return bf16 ? choose<AsyncShape>(dim, address(async<__nv_bfloat16, 64>), address(async<__nv_bfloat16, 128>))
              : choose<AsyncShape>(dim, address(async<__half, 64>), address(async<__half, 128>));
}

}  // namespace tessera::cuda::ladder
