// V widened to f16, as sm90's loop takes it: a pass before the kernels writes it to the workspace.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cuda/runtime/step.hpp"

namespace tessera::cuda::sm90_fp8 {

struct ValuesLayout {
  std::int64_t row = 0;            // elements from one row of it to the next
  std::int64_t bytes = 0, at = 0;  // of all rows; where they are in the workspace
  // The same of a scale for each batch entry and head, if there are any.
  std::int64_t scale_bytes = 0, scales_at = 0;
};
ValuesLayout values_layout(const core::Problem& problem);
// The tensor that it makes.
core::Tensor4 values_tensor(const core::Problem& problem, const ValuesLayout& layout);

// The launch.
void make_values(const core::Problem& problem, const ValuesLayout& layout, runtime::Step* out);

}  // namespace tessera::cuda::sm90_fp8
