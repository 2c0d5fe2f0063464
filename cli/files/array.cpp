// Names and sizes of element types, and the arithmetic on shapes that must not overflow.
#include "cli/files/array.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera::files {

std::string_view element_name(Element element) {
  switch (element) {
    case Element::f64:
      return "float64";
    case Element::f32:
      return "float32";
    case Element::f16:
      return "float16";
    case Element::bf16:
      return "bfloat16";
    case Element::f8e4m3:
      return "float8_e4m3fn";
    case Element::f8e5m2:
      return "float8_e5m2";
    case Element::raw16:
      return "void16";
    case Element::boolean:
      return "bool";
    case Element::i8:
      return "int8";
    case Element::i16:
      return "int16";
    case Element::i32:
      return "int32";
    case Element::i64:
      return "int64";
    case Element::u8:
      return "uint8";
    case Element::u16:
      return "uint16";
    case Element::u32:
      return "uint32";
    case Element::u64:
      return "uint64";
  }
  return "unknown";
}

std::int64_t element_size(Element element) {
  switch (element) {
    case Element::f8e4m3:
    case Element::f8e5m2:
    case Element::boolean:
    case Element::i8:
    case Element::u8:
      return 1;
    case Element::f16:
    case Element::bf16:
    case Element::raw16:
    case Element::i16:
    case Element::u16:
      return 2;
    case Element::f32:
    case Element::i32:
    case Element::u32:
      return 4;
    case Element::f64:
    case Element::i64:
    case Element::u64:
      return 8;
  }
  return 0;
}

std::optional<std::int64_t> byte_count(const Shape& shape, Element element) {
  std::int64_t bytes = element_size(element);
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, size, &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "'";
  for (char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '\\') {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kLongest) out += "...";
  return out + "'";
}

}  // namespace tessera::files
