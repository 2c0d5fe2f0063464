// The production kernel's row of the table: which variant and tile sizes a problem gets.
#pragma once

#include <cstddef>

#include "core/kernel.hpp"
#include "cuda/sm80/configs.hpp"

namespace tessera::cuda::sm80 {

core::Kernel production_row();

// For tests: the row of kHeadDims that a problem is padded to, the variant it gets on a GPU of so many SMs,
// and what it is estimated to take there.
std::size_t row_for(const core::Problem& problem);
HeadDims padded_dims(const core::Problem& problem);
Variant variant_for(const core::Problem& problem, int arch, int sms);
double estimate_us(const core::Problem& problem, int arch, int sms);

}  // namespace tessera::cuda::sm80
