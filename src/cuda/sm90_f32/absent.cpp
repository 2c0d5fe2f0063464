// A build without code for sm_90a: no wgmma kernels, and the kernel table says so.
#include "cuda/sm90_f32/launch.hpp"

namespace tessera::cuda::sm90_f32 {

bool in_build() { return false; }

void set_step(const core::Problem&, const Choice&, runtime::Step*) {}

}  // namespace tessera::cuda::sm90_f32
