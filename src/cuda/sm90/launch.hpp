// The wgmma kernels of this build, if it has any. A build without code for sm_90a has the same functions from
// absent.cpp.
#pragma once

#include "cuda/mask/plan.hpp"
#include "cuda/runtime/step.hpp"
#include "cuda/sm90/choose.hpp"

namespace tessera::cuda::sm90 {

bool in_build();

// The kernel of a problem's dtype and a tiling's head dims; null where there is no such variant.
const void* function_for(const core::Problem& problem, const Tiling& tiling, Variant variant);

// The same where K and V are widened.
const void* widened_function_for(const core::Problem& problem, const Tiling& tiling);

// `mask`: how a mask tensor was looked at beforehand; unused where there is none.
core::Status make_step(const core::Problem& problem, const Choice& choice, const mask::Layout& mask, int gpu,
                       runtime::Step* out);

}  // namespace tessera::cuda::sm90
