#include "cuda/mask/pass.hpp"
#include "cuda/mask/plan.hpp"
#include "cuda/ptx/pdl.hpp"

namespace tessera::cuda::mask {

__global__ void __launch_bounds__(kThreads) look(const __grid_constant__ PassParams p) {
  __shared__ PassShared shared;
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  Granules(p, shared).run();
}

const void* pass_function() { return reinterpret_cast<const void*>(look); }

}  // namespace tessera::cuda::mask
