// An array as a file holds it: element type, shape, order, and the bytes where they lie. The parsers
// of this folder look at a span of bytes and allocate nothing by what a header claims, so they can be
// handed anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::files {

enum class Element {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3,
  f8e5m2,
  raw16,  // two bytes of no stated meaning: how NumPy writes a type it does not know, bfloat16 included
  boolean,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
};

std::string_view element_name(Element element);  // "float32"
std::int64_t element_size(Element element);      // in bytes

using Shape = std::vector<std::int64_t>;
using Bytes = std::span<const std::byte>;

struct Array {
  Element element = Element::f32;
  Shape shape;
  bool fortran_order = false;  // the first dimension is the contiguous one
  bool big_endian = false;
  Bytes bytes;  // exactly the elements; may be unaligned
};

// More dimensions than any file has use for, few enough for fixed-size bookkeeping.
inline constexpr std::size_t kMaxFileRank = 32;

// Bytes of a contiguous array, or nothing if they (leaving out dimensions of size 0, as NumPy does)
// do not fit a signed 64-bit number. Sizes must not be negative.
std::optional<std::int64_t> byte_count(const Shape& shape, Element element);

std::string shape_text(const Shape& shape);  // "[2, 3]"

// Text from a file, fit for a terminal: quoted, control and non-ASCII bytes escaped, cut when long.
std::string printable(std::string_view text);

}  // namespace tessera::files
