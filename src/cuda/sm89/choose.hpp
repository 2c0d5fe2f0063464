// The row of the table for 8-bit inputs by mma.sync.
#pragma once

#include "core/kernel.hpp"
#include "cuda/runtime/step.hpp"
#include "cuda/sm89/configs.hpp"

namespace tessera::cuda::sm89 {

// A launch of a kernel that takes CodedParams.
void set_params(runtime::Step* step, const core::Problem& problem);

core::Kernel production_row();

// For tests: what a problem that is supported gets.
Config config_of(const core::Problem& problem);
Variant variant_of(const core::Problem& problem);

}  // namespace tessera::cuda::sm89
