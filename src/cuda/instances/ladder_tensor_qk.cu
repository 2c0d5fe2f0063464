// Rung 5: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/tensor_qk.hpp"

namespace tessera::cuda::ladder {

Rung tensor_qk(bool bf16, int dim) {
  return bf16 ? choose<TensorQkShape>(dim, address(tensor_qk<__nv_bfloat16, 64>),
                                      address(tensor_qk<__nv_bfloat16, 128>))
              : choose<TensorQkShape>(dim, address(tensor_qk<__half, 64>), address(tensor_qk<__half, 128>));
}

}  // namespace tessera::cuda::ladder
