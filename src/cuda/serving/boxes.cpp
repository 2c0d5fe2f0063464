#include "cuda/serving/boxes.hpp"

#include "cuda/translate.hpp"

namespace tessera::cuda::serving {
namespace {

// CUDA driver API, cuTensorMapEncodeTiled.
constexpr std::int64_t kAlignment = 16, kMostExtent = std::int64_t{1} << 31;
constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;
constexpr int kLeastBoxShift = 4, kMostBoxShift = 6;  // boxes of 16 to 64 rows

struct Extents {
  std::int64_t rows, heads, outer;  // outer: pages, or batch entries
};
Extents extents_of(const core::Problem& p) {
  if (p.kv.pages) return {p.kv.pages.rows, p.kv_heads, p.kv.pages.count};
  return {p.keys, p.kv_heads, p.kv.offsets ? 1 : p.batch};
}

bool fits(const core::Problem& p, const core::Tensor4& t, tessera_dtype dtype) {
  const Extents e = extents_of(p);
  const auto along = [&](std::int64_t extent, std::int64_t stride) {
    const std::int64_t bytes = stride * core::dtype_size(dtype);
    return extent == 1 ||  // never used, and frameworks set it to anything
           (extent > 1 && extent < kMostExtent && bytes > 0 && bytes < kStrideLimit);
  };
  return along(e.rows, t.row_stride) && along(e.heads, t.head_stride) && along(e.outer, t.batch_stride);
}

runtime::BoxedTensor boxed(const core::Problem& p, const core::Tensor4& t, tessera_dtype dtype,
                           std::int64_t columns, int shift) {
  const Extents e = extents_of(p);
  const auto bytes = [&](std::int64_t extent, std::int64_t stride) {
    return static_cast<std::uint64_t>(extent > 1 ? stride * core::dtype_size(dtype) : kAlignment);
  };
  const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  return {t.data,
          core::is_8_bit(dtype) ? Element::e4m3 : element_of(dtype),  // of bytes
          {size(columns), size(e.rows), size(e.heads), size(e.outer)},
          {bytes(e.rows, t.row_stride), bytes(e.heads, t.head_stride), bytes(e.outer, t.batch_stride)},
          std::uint32_t{1} << shift,
          false,
          true};
}

}  // namespace

int box_shift(const core::Problem& p) {
  const tessera_dtype dtype = p.kv.dtype;
  if (!keys_of_16_bytes(p) || !fits(p, p.kv.key, dtype) || !fits(p, p.kv.value, dtype)) return 0;
  if (p.kv.tail_dim > 0 && !fits(p, p.kv.tail, p.dtype)) return 0;
  int shift = kMostBoxShift;
  if (p.kv.pages)
    while (shift > 0 && p.kv.pages.rows % (std::int64_t{1} << shift) != 0) --shift;
  return shift < kLeastBoxShift ? 0 : shift;
}

Boxes boxes_of(const core::Problem& p, int shift) {
  const runtime::BoxedTensor key = boxed(p, p.kv.key, p.kv.dtype, p.key_dim(), shift);
  if (p.kv.tail_dim > 0) return {key, boxed(p, p.kv.tail, p.dtype, p.kv.tail_dim, shift)};
  return {key, boxed(p, p.kv.value, p.kv.dtype, p.value_dim, shift)};
}

}  // namespace tessera::cuda::serving
