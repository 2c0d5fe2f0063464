#include "cuda/sm90/tensors.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "cuda/translate.hpp"

namespace tessera::cuda::sm90 {
namespace {

// CUDA driver API, cuTensorMapEncodeTiled.
constexpr std::int64_t kAlignment = 16;
constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;

struct Dimension {
  std::string_view name;
  std::int64_t extent, stride;
};

core::Status check(const core::Problem& p, std::string_view name, const core::Tensor4& t, std::int64_t heads,
                   std::int64_t rows) {
  if (reinterpret_cast<std::uintptr_t>(t.data) % kAlignment != 0)
    return core::unsupported(fmt::format("{} does not start at a multiple of {} bytes", name, kAlignment));
  const std::int64_t size = core::dtype_size(p.dtype);
  for (const Dimension& d : {Dimension{"row", rows, t.row_stride}, Dimension{"head", heads, t.head_stride},
                             Dimension{"batch", p.batch, t.batch_stride}}) {
    if (d.extent == 0)
      return core::unsupported(fmt::format("{} has nothing along its {} dimension", name, d.name));
    if (d.extent == 1) continue;  // never used, and frameworks set it to anything
    if (d.stride <= 0 || d.stride >= kStrideLimit / size || d.stride * size % kAlignment != 0)
      return core::unsupported(
          fmt::format("{}'s {} stride is {} elements; 16 bytes are moved at a time: multiples of {}, from {} "
                      "to under 2^40 "
                      "bytes, are accepted",
                      name, d.name, d.stride, kAlignment / size, kAlignment / size));
  }
  return {};
}

runtime::BoxedTensor boxed(const core::Problem& p, const core::Tensor4& t, std::int64_t columns,
                           std::int64_t heads, std::int64_t rows, int box_rows) {
  // The encoder looks at every stride, also where there is one element.
  const auto bytes = [&](std::int64_t extent, std::int64_t stride) {
    return static_cast<std::uint64_t>(extent > 1 ? stride * core::dtype_size(p.dtype) : kAlignment);
  };
  return {t.data,
          element_of(p.dtype),
          {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
           static_cast<std::uint64_t>(heads), static_cast<std::uint64_t>(p.batch)},
          {bytes(rows, t.row_stride), bytes(heads, t.head_stride), bytes(p.batch, t.batch_stride)},
          static_cast<std::uint32_t>(box_rows)};
}

}  // namespace

core::Status check_boxes(const core::Problem& p) {
  if (core::Status s = check(p, "query", p.query, p.heads, p.queries); !s.ok()) return s;
  if (core::Status s = check(p, "key", p.kv.key, p.kv_heads, p.keys); !s.ok()) return s;
  if (core::Status s = check(p, "value", p.kv.value, p.kv_heads, p.keys); !s.ok()) return s;
  return check(p, "output", p.output.rows, p.heads, p.queries);
}

BoxedTensors boxes_of(const core::Problem& p, const Tiling& c) {
  BoxedTensors boxes{boxed(p, p.query, p.dim, p.heads, p.queries, c.query_rows),
                     boxed(p, p.kv.key, p.dim, p.kv_heads, p.keys, c.keys),
                     boxed(p, p.kv.value, p.value_dim, p.kv_heads, p.keys, c.keys)};
  if (!c.strips) return boxes;
  boxes.strips = {boxes.query, boxes.key, boxes.value};
  for (runtime::BoxedTensor& strip : boxes.strips) strip.strip = true;
  return boxes;
}

runtime::BoxedTensor mask_box(const core::Problem& p, const mask::Layout& layout, int box_rows) {
  const core::MaskTensor& mask = p.visibility.mask;
  const std::int64_t size = core::dtype_size(mask.dtype);
  std::array<std::int64_t, 3> strides{mask.strides[2], mask.strides[1], mask.strides[0]};  // row, head, batch
  if (layout.copy_row > 0)
    strides = {layout.copy_row, layout.copy_row * layout.rows, layout.copy_row * layout.rows * layout.heads};
  const std::array<std::int64_t, 3> extents{layout.rows, layout.heads, layout.batch};
  runtime::BoxedTensor box;
  box.data = const_cast<void*>(mask.data);
  box.element = element_of(mask.dtype);
  box.extents[0] = static_cast<std::uint64_t>(p.keys);
  for (std::size_t d = 0; d < 3; ++d) {
    box.extents[d + 1] = static_cast<std::uint64_t>(extents[d]);
    box.strides_bytes[d] = static_cast<std::uint64_t>(extents[d] > 1 ? strides[d] * size : kAlignment);
  }
  box.box_rows = static_cast<std::uint32_t>(box_rows);
  return box;
}

}  // namespace tessera::cuda::sm90
