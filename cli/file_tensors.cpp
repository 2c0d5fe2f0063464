// Element types and ranks of files, settled for the library.
#include "cli/file_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "cli/common.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cli {

using files::Element;
using files::Shape;
using files::Tensor;

namespace {

bool is_float(Element e) { return e == Element::f32 || e == Element::f16 || e == Element::bf16; }
// What --dtype says of elements that do not say it themselves.
void apply_dtype(std::string_view dtype, Tensor* tensor) {
  const Element named = element_of(dtype), given = tensor->element;
  const bool two_bytes = given == Element::raw16 || given == Element::u16 || given == Element::i16;
  const bool one_byte = given == Element::u8 || given == Element::i8;
  if (dtype.empty() || !(is_8_bit(named) ? one_byte : two_bytes)) return;
  tensor->element = named;
}

}  // namespace

bool is_8_bit(Element e) { return e == Element::f8e4m3 || e == Element::f8e5m2; }

tessera_dtype dtype_of(Element element) {
  switch (element) {
    case Element::f32:
      return TESSERA_F32;
    case Element::f16:
      return TESSERA_F16;
    case Element::bf16:
      return TESSERA_BF16;
    case Element::f8e4m3:
      return TESSERA_F8E4M3;
    case Element::f8e5m2:
      return TESSERA_F8E5M2;
    case Element::i8:
      return TESSERA_I8;
    case Element::boolean:
      return TESSERA_BOOL;
    case Element::i32:
      return TESSERA_I32;
    case Element::i64:
      return TESSERA_I64;
    default:
      return 0;
  }
}

Element element_of(std::string_view name) {
  return name == "f16"      ? Element::f16
         : name == "bf16"   ? Element::bf16
         : name == "f8e4m3" ? Element::f8e4m3
         : name == "f8e5m2" ? Element::f8e5m2
         : name == "i8"     ? Element::i8
                            : Element::f32;
}

Tensor load(const std::string& name, Names usual_names) {
  std::string error;
  std::optional<Tensor> tensor = files::load_tensor(name, usual_names, &error);
  if (!tensor) usage_error(error);
  return *std::move(tensor);
}

Tensor load_numbers(const std::string& name, Names usual_names, const LoadFlags& flags, bool allow_boolean) {
  Tensor tensor = load(name, usual_names);
  apply_dtype(flags.dtype, &tensor);
  const bool two_bytes =
      tensor.element == Element::raw16 || tensor.element == Element::u16 || tensor.element == Element::i16;
  if (tensor.element == Element::raw16) tensor.element = Element::bf16;  // the only one NumPy cannot name
  if (tensor.element == Element::f64 && flags.convert) tensor = files::narrowed(tensor);
  if (is_float(tensor.element) || (allow_boolean && tensor.element == Element::boolean)) return tensor;

  std::string advice = fmt::format("accepted: float32, float16, bfloat16{}", allow_boolean ? ", bool" : "");
  if (tensor.element == Element::f64) {
    advice = "pass --convert to round it to float32, or save it with .astype(numpy.float32)";
  } else if (two_bytes) {
    advice += "; pass --dtype bf16 or --dtype f16 if these are the bits of such numbers";
  }
  usage_error(fmt::format("{}: it holds {}; {}", tensor.source, files::element_name(tensor.element), advice));
}

Tensor load_f32(const std::string& name, Names usual_names, const LoadFlags& flags) {
  Tensor tensor = load_numbers(name, usual_names, flags, false);
  if (tensor.element == Element::f32) return tensor;
  const auto count = static_cast<std::size_t>(tensor.count());
  const std::shared_ptr<float[]> wide(new float[std::max<std::size_t>(count, 1)]);
  for (std::size_t i = 0; i < count; ++i) {
    wide[i] = static_cast<float>(
        oracle::load(tensor.bytes.data(), dtype_of(tensor.element), static_cast<std::int64_t>(i)));
  }
  tensor.element = Element::f32;
  tensor.bytes = std::as_bytes(std::span(wide.get(), count));
  tensor.owner = wide;
  return tensor;
}

Tensor load_rows(const std::string& name, Names usual_names, const LoadFlags& flags) {
  Tensor tensor = load(name, usual_names);
  apply_dtype(flags.dtype, &tensor);
  if (is_8_bit(tensor.element) || tensor.element == Element::i8) return tensor;
  if (tensor.element == Element::u8) {
    usage_error(
        fmt::format("{}: it holds {}; pass --dtype f8e4m3 or --dtype f8e5m2 if these are the bits of "
                    "such numbers",
                    tensor.source, files::element_name(tensor.element)));
  }
  return load_numbers(name, usual_names, flags, false);
}

Tensor load_whole(const std::string& name, Names usual_names) {
  std::string error;
  const std::optional<Tensor> numbers = files::as_int64(load(name, usual_names), &error);
  if (!numbers) usage_error(error);
  return *numbers;
}

tessera_tensor view(const Tensor& tensor, std::string_view what, std::size_t max_rank) {
  if (tensor.shape.size() > max_rank) {
    usage_error(fmt::format("{}: its shape {} has {} dimensions; {} has at most {}", tensor.source,
                            files::shape_text(tensor.shape), tensor.shape.size(), what, max_rank));
  }
  static std::byte nothing[16];  // an array without elements still needs an address that is not null
  Shape shape = tensor.shape;
  if (shape.empty()) shape.push_back(1);
  tessera_tensor t = TESSERA_TENSOR_NONE;
  t.data = tensor.bytes.empty() ? nothing : const_cast<std::byte*>(tensor.bytes.data());
  t.dtype = dtype_of(tensor.element);
  t.rank = static_cast<std::int32_t>(shape.size());
  // Where some size is 0 the product of the others may be anything; unsigned, it wraps, and the
  // library judges it.
  std::uint64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    t.shape[d] = shape[d];
    t.strides[d] = static_cast<std::int64_t>(stride);
    stride *= static_cast<std::uint64_t>(shape[d]);
  }
  return t;
}

tessera_tensor view_4d(const Tensor& tensor, bool rows_before_heads) {
  const tessera_tensor given = view(tensor, "query, key or value", 4);
  if (given.rank < 2) {
    usage_error(
        fmt::format("{}: its shape is {}; accepted: [batch, heads, rows, dim], [heads, rows, dim] or "
                    "[rows, dim]",
                    tensor.source, files::shape_text(tensor.shape)));
  }
  tessera_tensor t = given;
  t.rank = 4;
  for (int d = 0; d < 4; ++d) {
    const int from = d - (4 - given.rank);
    t.shape[d] = from < 0 ? 1 : given.shape[from];
    t.strides[d] = from < 0 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(given.shape[0]) *
                                                        static_cast<std::uint64_t>(given.strides[0]))
                            : given.strides[from];
  }
  if (rows_before_heads && given.rank >= 3) {
    std::swap(t.shape[1], t.shape[2]);
    std::swap(t.strides[1], t.strides[2]);
  }
  return t;
}

tessera_tensor transposed_view_4d(const Tensor& tensor) {
  tessera_tensor t = view_4d(tensor, false);
  std::swap(t.shape[2], t.shape[3]);
  std::swap(t.strides[2], t.strides[3]);
  return t;
}

Tensor allocate(Element element, Shape shape, const std::string& source) {
  const std::optional<std::int64_t> bytes = files::byte_count(shape, element);
  if (!bytes)
    usage_error(fmt::format("{}: the result would have the shape {}, too large to count", source,
                            files::shape_text(shape)));
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(*bytes, 1));
  const std::shared_ptr<std::byte[]> memory(new (std::nothrow) std::byte[size]);
  if (!memory)
    throw Stop(kExitUnavailable, fmt::format("{}: no memory for {} bytes of results", source, *bytes));
  return {element, std::move(shape), {memory.get(), static_cast<std::size_t>(*bytes)}, memory, source};
}

}  // namespace tessera::cli
