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

// As they lie in memory, which for a dense batch is as the problem's sizes have it.
Extents of_queries(const core::Problem& p) { return {p.query_offsets ? 1 : p.batch, p.heads, p.queries}; }
Extents of_keys(const core::Problem& p) {
  if (p.kv.pages) return {p.kv.pages.count, p.kv_heads, p.kv.pages.rows};
  return {p.kv.offsets ? 1 : p.batch, p.kv_heads, p.keys};
}

}  // namespace

core::Status check_box(tessera_dtype dtype, std::string_view name, const core::Tensor4& t, const Extents& n) {
  if (reinterpret_cast<std::uintptr_t>(t.data) % kAlignment != 0)
    return core::unsupported(fmt::format("{} does not start at a multiple of {} bytes", name, kAlignment));
  const std::int64_t size = core::dtype_size(dtype);
  for (const Dimension& d :
       {Dimension{"row", n.rows, t.row_stride}, Dimension{"head", n.heads, t.head_stride},
        Dimension{"batch", n.outer, t.batch_stride}}) {
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

runtime::BoxedTensor box_of(tessera_dtype dtype, const core::Tensor4& t, std::int64_t columns,
                            const Extents& n, int box_rows) {
  // The encoder looks at every stride, also where there is one element.
  const auto bytes = [&](std::int64_t extent, std::int64_t stride) {
    return static_cast<std::uint64_t>(extent > 1 ? stride * core::dtype_size(dtype) : kAlignment);
  };
  return {t.data,
          core::is_8_bit(dtype) ? Element::e4m3 : element_of(dtype),  // of bytes
          {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(n.rows),
           static_cast<std::uint64_t>(n.heads), static_cast<std::uint64_t>(n.outer)},
          {bytes(n.rows, t.row_stride), bytes(n.heads, t.head_stride), bytes(n.outer, t.batch_stride)},
          static_cast<std::uint32_t>(box_rows)};
}

core::Status check_boxes(const core::Problem& p) {
  const Extents rows = of_queries(p), keys = of_keys(p);
  if (core::Status s = check_box(p.dtype, "query", p.query, rows); !s.ok()) return s;
  if (core::Status s = check_box(p.kv.dtype, "key", p.kv.key, keys); !s.ok()) return s;
  if (core::Status s = check_box(p.kv.dtype, "value", p.kv.value, keys); !s.ok()) return s;
  return check_box(p.output.dtype, "output", p.output.rows, rows);
}

BoxedTensors boxes_of(const core::Problem& p, const Tiling& c, int key_rows) {
  BoxedTensors boxes{box_of(p.dtype, p.query, p.dim, of_queries(p), c.query_rows),
                     box_of(p.kv.dtype, p.kv.key, p.dim, of_keys(p), key_rows),
                     box_of(p.kv.dtype, p.kv.value, p.value_dim, of_keys(p), key_rows)};
  if (!c.strips) return boxes;
  boxes.strips = {boxes.query, boxes.key, boxes.value};
  for (runtime::BoxedTensor& strip : boxes.strips) strip.strip = true;
  return boxes;
}

BoxedTensors boxes_of(const core::Problem& p, const Tiling& c) { return boxes_of(p, c, c.keys); }

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
