// Rung 7: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/tensor_pv.hpp"

namespace tessera::cuda::ladder {

Rung tensor_pv(bool bf16, int dim) {
  return bf16 ? choose<TensorPvShape>(dim, address(tensor_pv<__nv_bfloat16, 64>),
                                      address(tensor_pv<__nv_bfloat16, 128>))
              : choose<TensorPvShape>(dim, address(tensor_pv<__half, 64>), address(tensor_pv<__half, 128>));
}

}  // namespace tessera::cuda::ladder
