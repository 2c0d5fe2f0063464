// What can be said about one tensor view without reading its memory.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "core/status.hpp"

namespace tessera::core {

// How a tensor is allowed to look.
struct TensorRule {
  std::string_view shape;  // "[batch, heads, queries, dim]"
  int min_rank = 4;
  int max_rank = 4;
  std::span<const tessera_dtype> dtypes;
  bool last_dim_contiguous = true;
  bool transposed_8_bit = false;  // of an 8-bit dtype the last dimension but one may be contiguous instead
};

// An optional tensor that was left out: no data and no rank.
bool is_absent(const tessera_tensor& tensor);

// Rank, dtype, sizes, strides, overflow, null and alignment of the tensor that users know by this name. On
// success *span_bytes says how far it reaches from its address; 0 if it has no element.
Status check_tensor(std::string_view name, const TensorRule& rule, const tessera_tensor& tensor,
                    std::uint64_t* span_bytes);

// Two different elements of a tensor that is written must not share memory.
Status check_written_once(std::string_view name, const tessera_tensor& tensor);

// One size that two tensors must agree on.
struct Agreement {
  const tessera_tensor& tensor;
  std::string_view name;
  int dimension;
  std::int64_t want;
  std::string_view meaning;
};
Status agree(std::initializer_list<Agreement> all);

}  // namespace tessera::core
