// K and V as TMA sees them.
#pragma once

#include "core/problem.hpp"
#include "cuda/runtime/tensor_map.hpp"

namespace tessera::cuda::serving {

// Boxes of 1 << this many rows never lie in two pages; 0: TMA cannot copy these tensors, or pages are too
// small.
int box_shift(const core::Problem& problem);

struct Boxes {
  runtime::BoxedTensor key, value;  // value: the tail of keys that have one, which hold their values
};
Boxes boxes_of(const core::Problem& problem, int shift);

}  // namespace tessera::cuda::serving
