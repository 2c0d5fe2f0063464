// The f32 kernels of this build for wgmma, if it has any. A build without code for sm_90a has the same
// functions from absent.cpp.
#pragma once

#include "cuda/runtime/step.hpp"
#include "cuda/sm90_f32/choose.hpp"

namespace tessera::cuda::sm90_f32 {

bool in_build();

void set_step(const core::Problem& problem, const Choice& choice, runtime::Step* out);

}  // namespace tessera::cuda::sm90_f32
