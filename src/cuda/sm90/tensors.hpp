// Query, key, value and output of a problem as the copy engine is to be told of them.
#pragma once

#include "core/problem.hpp"
#include "cuda/runtime/tensor_map.hpp"
#include "cuda/sm90/config.hpp"

namespace tessera::cuda::sm90 {

struct BoxedTensors {
  runtime::BoxedTensor query, key, value, output;

  bool operator==(const BoxedTensors&) const = default;
};

// OK, or the sentence which stride or address the copy engine cannot take.
core::Status check_boxes(const core::Problem& problem);

// Of a problem that passed: boxes have the rows of a warpgroup, or the keys of a tile.
BoxedTensors boxes_of(const core::Problem& problem, const Config& config);

}  // namespace tessera::cuda::sm90
