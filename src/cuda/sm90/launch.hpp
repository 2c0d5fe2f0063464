// The wgmma kernels of this build, if it has any. A build without code for sm_90a has the same functions from
// absent.cpp.
#pragma once

#include "core/problem.hpp"
#include "cuda/sm90/choose.hpp"

namespace tessera::cuda::sm90 {

bool in_build();

core::Status launch(const core::Problem& problem, const Choice& choice, const tessera_device& device);

}  // namespace tessera::cuda::sm90
