#include "cuda/serving/dims.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "cuda/translate.hpp"

namespace tessera::cuda::serving {

// A stride along a dimension of one element is never used, and frameworks set it to anything.
bool values_in_keys(const core::Problem& p) {
  const core::Tensor4 &key = p.kv.key, &value = p.kv.value;
  const bool paged = static_cast<bool>(p.kv.pages);
  const auto alike = [](std::int64_t extent, std::int64_t x, std::int64_t y) {
    return extent <= 1 || x == y;
  };
  return value.data == key.data && p.kv.value_column_stride == 1 && p.value_dim <= p.key_dim() &&
         alike(paged ? p.kv.pages.count : p.batch, key.batch_stride, value.batch_stride) &&
         alike(p.kv_heads, key.head_stride, value.head_stride) &&
         alike(paged ? p.kv.pages.rows : p.keys, key.row_stride, value.row_stride);
}

core::Status takes_tail(const core::Problem& p, int columns_together) {
  constexpr std::int64_t kMostTail = 64, kMostKey = kLatentDims.dim - kMostTail;
  if (!values_in_keys(p))
    return core::unsupported("key_tail is set, and value.data is not key.data with its strides");
  if (p.key_dim() > kMostKey || p.key_dim() % columns_together != 0 || p.kv.tail_dim > kMostTail)
    return core::unsupported(fmt::format(
        "key has {} columns and key_tail {}; multiples of {} up to {}, and up to {}, are accepted",
        p.key_dim(), p.kv.tail_dim, columns_together, kMostKey, kMostTail));
  const std::int64_t outer = p.kv.pages ? p.kv.pages.count : p.batch;
  if (rows_of_16_bytes(p, p.kv.tail, outer, p.kv_heads, p.keys, p.kv.tail_dim) && keys_of_16_bytes(p))
    return {};
  return core::unsupported(
      "rows of key or key_tail are not aligned to 16 bytes or not a multiple of 16 bytes long");
}

core::Status takes_dims(const core::Problem& p) {
  if (p.kv.tail_dim > 0) return takes_tail(p, 64);
  if ((p.dim <= kMostDims.dim && p.value_dim <= kMostDims.value_dim) ||
      (p.dim <= kLatentDims.dim && p.value_dim <= kLatentDims.value_dim && values_in_keys(p)))
    return {};
  return core::unsupported(
      fmt::format("dim is {} and value dim {}; up to {} is accepted, and up to {} and {} where value.data is "
                  "key.data with its strides",
                  p.dim, p.value_dim, kMostDims.dim, kLatentDims.dim, kLatentDims.value_dim));
}

}  // namespace tessera::cuda::serving
