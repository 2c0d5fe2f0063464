// Rung 2: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/shared.hpp"

namespace tessera::cuda::ladder {

Rung shared_padded(bool bf16, int dim) {
  return bf16 ? choose<SharedPaddedShape>(dim, address(shared_padded<__nv_bfloat16, 64>),
                                          address(shared_padded<__nv_bfloat16, 128>))
              : choose<SharedPaddedShape>(dim, address(shared_padded<__half, 64>),
                                          address(shared_padded<__half, 128>));
}

Rung shared(bool bf16, int dim) {
  return bf16 ? choose<SharedShape>(dim, address(shared<__nv_bfloat16, 64>),
                                    address(shared<__nv_bfloat16, 128>))
              : choose<SharedShape>(dim, address(shared<__half, 64>), address(shared<__half, 128>));
}

}  // namespace tessera::cuda::ladder
