// Query, key and value of a problem as TMA is told of them.
#pragma once

#include <array>

#include "core/problem.hpp"
#include "cuda/mask/plan.hpp"
#include "cuda/runtime/tensor_map.hpp"
#include "cuda/sm90/configs.hpp"

namespace tessera::cuda::sm90 {

struct BoxedTensors {
  runtime::BoxedTensor query, key, value;
  std::array<runtime::BoxedTensor, 3> strips{};  // of these, where the tiling has any

  bool operator==(const BoxedTensors&) const = default;
};

// OK, or the sentence which stride or address, of the output's too, does not allow 16 bytes at a time.
core::Status check_boxes(const core::Problem& problem);

// Of a problem that passed: boxes have the rows of a warpgroup (of a warp, if it has fewer than 16), or the
// keys of a tile.
BoxedTensors boxes_of(const core::Problem& problem, const Tiling& tiling);
// The same with boxes of so many keys, which lie in one page.
BoxedTensors boxes_of(const core::Problem& problem, const Tiling& tiling, int key_rows);

// An additive mask, or the pass's copy of it.
runtime::BoxedTensor mask_box(const core::Problem& problem, const mask::Layout& layout, int box_rows);

}  // namespace tessera::cuda::sm90
