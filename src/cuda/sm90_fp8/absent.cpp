// A build without code for sm_90a: no wgmma kernels, and the kernel table says so.
#include "cuda/sm90_fp8/launch.hpp"

namespace tessera::cuda::sm90_fp8 {

bool in_build() { return false; }

core::Status add_steps(const core::Problem&, const Choice&, int, Steps*) { return {}; }

}  // namespace tessera::cuda::sm90_fp8
