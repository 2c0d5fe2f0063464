// The host's part of keys and values of 8 bits.
#pragma once

#include "core/problem.hpp"
#include "cuda/serving/choose.hpp"
#include "cuda/serving/params.hpp"

namespace tessera::cuda::serving {

bool has_codes(const core::Problem& problem);
// OK, or what of the tensors these kernels do not take.
core::Status coded_tensors(const core::Problem& problem);
// All but the row tiles.
Choice coded_choice(const core::Problem& problem, int code_arch, bool few);
CodedParams coded_params(const core::Problem& problem, const ServingParams& params);

}  // namespace tessera::cuda::serving
