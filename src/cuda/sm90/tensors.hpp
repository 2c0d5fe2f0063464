// Query, key and value of a problem as TMA is told of them.
#pragma once

#include <array>
#include <string_view>

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

// A tensor as boxes see it: batch entries or pages, heads, rows.
struct Extents {
  std::int64_t outer, heads, rows;
};
// The same of one tensor that users know by this name, and how TMA is told of it.
core::Status check_box(tessera_dtype dtype, std::string_view name, const core::Tensor4& tensor,
                       const Extents& extents);
runtime::BoxedTensor box_of(tessera_dtype dtype, const core::Tensor4& tensor, std::int64_t columns,
                            const Extents& extents, int box_rows);

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
