// What a mask tensor adds to a launch: for the .cu files of every folder that has such kernels.
#pragma once

#include "cuda/mask/plan.hpp"
#include "cuda/sm90/configs.hpp"
#include "cuda/sm90/params.hpp"

namespace tessera::cuda::sm90 {

core::Status add_mask(const core::Problem& problem, const Tiling& tiling, const mask::Layout& layout, int gpu,
                      Sm90MaskParams* out);
// Addresses, but for those that every kernel has.
core::Status place_mask(Sm90MaskParams* params, const core::Addresses& at, void* workspace);

}  // namespace tessera::cuda::sm90
