// The f32 kernel's row of the table: which tile sizes a problem gets.
#pragma once

#include "core/kernel.hpp"
#include "cuda/sm80_f32/configs.hpp"

namespace tessera::cuda::sm80_f32 {

core::Kernel production_row();

// For tests: the head dim that a problem is padded to, the variant it gets on a GPU of so many SMs, and what
// it is estimated to take there.
int padded_dim(const core::Problem& problem);
Variant variant_for(const core::Problem& problem, int arch, int sms);
double estimate_us(const core::Problem& problem, int arch, int sms);

}  // namespace tessera::cuda::sm80_f32
