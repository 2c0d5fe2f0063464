// Rung 6: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/tensor_tiled.hpp"

namespace tessera::cuda::ladder {

Rung tensor_tiled(bool bf16, int dim) {
  return bf16 ? choose<TensorTiledShape>(dim, address(tensor_tiled<__nv_bfloat16, 64>),
                                         address(tensor_tiled<__nv_bfloat16, 128>))
              : choose<TensorTiledShape>(dim, address(tensor_tiled<__half, 64>),
                                         address(tensor_tiled<__half, 128>));
}

Rung tensor_tiled_f16(bool bf16, int dim) {
  if (bf16) return {nullptr, 0, 0, 0};
  return choose<TensorTiledShape>(dim, address(tensor_tiled_f16<__half, 64>),
                                  address(tensor_tiled_f16<__half, 128>));
}

}  // namespace tessera::cuda::ladder
