// The kernels of this build for 8-bit inputs and wgmma, if it has any. A build without code for sm_90a has
// the same functions from absent.cpp.
#pragma once

#include "cuda/sm90_fp8/choose.hpp"
#include "cuda/steps.hpp"

namespace tessera::cuda::sm90_fp8 {

bool in_build();

core::Status add_steps(const core::Problem& problem, const Choice& choice, int gpu, Steps* out);

}  // namespace tessera::cuda::sm90_fp8
