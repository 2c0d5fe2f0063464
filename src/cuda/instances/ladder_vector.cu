// Rung 4: the kernels of this rung, and its row of the table.
#include "cuda/ladder/instance.hpp"
#include "cuda/ladder/vector.hpp"

namespace tessera::cuda::ladder {

Rung vector(bool bf16, int dim) {
  return bf16 ? choose<VectorShape>(dim, address(vector<__nv_bfloat16, 64>),
                                    address(vector<__nv_bfloat16, 128>))
              : choose<VectorShape>(dim, address(vector<__half, 64>), address(vector<__half, 128>));
}

}  // namespace tessera::cuda::ladder
