// What can be said about one tensor view without reading its memory.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/status.hpp"

namespace tessera::core {

// [begin, end) of the bytes a tensor can touch; empty if it has no element.
struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  bool overlaps(const ByteRange& other) const {
    return begin < end && other.begin < other.end && begin < other.end && other.begin < end;
  }
};

// How a tensor is allowed to look.
struct TensorRule {
  std::string_view name;   // the field, as the user wrote it: "query"
  std::string_view shape;  // "[batch, heads, queries, dim]"
  int min_rank = 4;
  int max_rank = 4;
  std::initializer_list<tessera_dtype> dtypes;
  bool last_dim_contiguous = true;
};

// An optional tensor that was left out: no data and no rank.
bool is_absent(const tessera_tensor& tensor);

// Rank, dtype, sizes, strides, overflow, null and alignment. On success *range is what it can touch.
Status check_tensor(const TensorRule& rule, const tessera_tensor& tensor, ByteRange* range);

// Two different elements of a tensor that is written must not share memory.
Status check_written_once(std::string_view name, const tessera_tensor& tensor);

}  // namespace tessera::core
