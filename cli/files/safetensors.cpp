// The header is read event by event, never as a tree: depth is bounded by the schema itself, so nesting
// costs nothing, and duplicate keys, which a tree would swallow, are seen.
#include "cli/files/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace tessera::files {
namespace {

using Json = nlohmann::json;

// The format's own limit.
constexpr std::uint64_t kLongestSafetensorsHeader = 100'000'000;
constexpr std::uint64_t kLengthBytes = 8;

struct Dtype {
  std::string_view name;
  std::int64_t bytes;
  std::optional<Element> element;  // none: known to the format, of no use here
};
constexpr Dtype kDtypes[] = {
    {"F64", 8, Element::f64},
    {"F32", 4, Element::f32},
    {"F16", 2, Element::f16},
    {"BF16", 2, Element::bf16},
    {"BOOL", 1, Element::boolean},
    {"I8", 1, Element::i8},
    {"I16", 2, Element::i16},
    {"I32", 4, Element::i32},
    {"I64", 8, Element::i64},
    {"U8", 1, Element::u8},
    {"U16", 2, Element::u16},
    {"U32", 4, Element::u32},
    {"U64", 8, Element::u64},
    {"F8_E4M3", 1, Element::f8e4m3},
    {"F8_E5M2", 1, Element::f8e5m2},
    {"F8_E8M0", 1, {}},
    {"C64", 8, {}},
};

struct Entry {
  std::string name;
  const Dtype* dtype = nullptr;
  Shape shape;
  std::uint64_t begin = 0, end = 0;
};

// Receives nlohmann's events and accepts only the schema above. Every handler returns false to stop.
class HeaderReader {
 public:
  std::vector<Entry> entries;
  std::string error;

  bool start_object(std::size_t) {
    switch (where_) {
      case Where::start:
        where_ = Where::top;
        return true;
      case Where::tensor_value:
        where_ = Where::tensor;
        return true;
      case Where::metadata_value:
        where_ = Where::metadata;
        return true;
      default:
        return misplaced("an object");
    }
  }

  bool key(std::string& name) {
    if (where_ == Where::metadata) {
      return metadata_.insert(name).second ||
             fail(fmt::format("__metadata__ has the key {} twice", printable(name)));
    }
    if (where_ == Where::tensor) return field_key(name);
    if (!names_.insert(name).second)
      return fail(fmt::format("the header has the key {} twice", printable(name)));
    if (name == "__metadata__") {
      where_ = Where::metadata_value;
      return true;
    }
    where_ = Where::tensor_value;
    fields_ = {};
    entries.emplace_back().name = name;
    return true;
  }

  bool end_object() {
    if (where_ == Where::metadata) {
      where_ = Where::top;
      return true;
    }
    if (where_ == Where::top) {
      where_ = Where::done;
      return true;
    }
    for (auto [seen, name] : {std::pair{fields_.dtype, "dtype"},
                              {fields_.shape, "shape"},
                              {fields_.data_offsets, "data_offsets"}}) {
      if (!seen) return fail(fmt::format("tensor {} has no {}", printable(entries.back().name), name));
    }
    where_ = Where::top;
    return true;
  }

  bool start_array(std::size_t) {
    if (where_ == Where::shape_value) {
      where_ = Where::shape;
    } else if (where_ == Where::offsets_value) {
      where_ = Where::offsets;
    } else {
      return misplaced("a list");
    }
    return true;
  }

  bool end_array() {
    if (where_ == Where::offsets && offsets_seen_ != 2) return wrong_offsets();
    where_ = Where::tensor;
    return true;
  }

  bool number_unsigned(std::uint64_t value) {
    if (where_ == Where::offsets) {
      if (offsets_seen_ == 2) return wrong_offsets();
      (offsets_seen_++ == 0 ? entries.back().begin : entries.back().end) = value;
      return true;
    }
    if (where_ != Where::shape) return misplaced("a number");
    Shape& shape = entries.back().shape;
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return fail(
          fmt::format("tensor {} has a size that does not fit 63 bits", printable(entries.back().name)));
    }
    shape.push_back(static_cast<std::int64_t>(value));
    return shape.size() <= kMaxFileRank || fail(fmt::format("tensor {} has more than {} dimensions",
                                                            printable(entries.back().name), kMaxFileRank));
  }

  bool string(std::string& value) {
    if (where_ == Where::metadata) return true;
    if (where_ != Where::dtype_value) return misplaced("a string");
    const Dtype* dtype = std::ranges::find(kDtypes, value, &Dtype::name);
    if (dtype == std::end(kDtypes)) {
      return fail(fmt::format("tensor {} has the unknown dtype {}", printable(entries.back().name),
                              printable(value)));
    }
    entries.back().dtype = dtype;
    where_ = Where::tensor;
    return true;
  }

  bool number_integer(std::int64_t) { return misplaced("a negative number"); }
  bool number_float(double, const std::string&) { return misplaced("a fraction"); }
  bool null() { return misplaced("null"); }
  bool boolean(bool) { return misplaced("true or false"); }
  bool binary(Json::binary_t&) { return misplaced("binary data"); }

  bool parse_error(std::size_t position, const std::string& token, const Json::exception&) {
    return fail(fmt::format("the header is no valid JSON: byte {}, near {}", position, printable(token)));
  }

 private:
  // Where the next event belongs; ..._value: after that key, before its value.
  enum class Where {
    start,
    top,
    metadata_value,
    metadata,
    tensor_value,
    tensor,
    dtype_value,
    shape_value,
    shape,
    offsets_value,
    offsets,
    done,
  };
  struct Fields {
    bool dtype = false, shape = false, data_offsets = false;
  };

  bool field_key(const std::string& name) {
    bool* seen = nullptr;
    if (name == "dtype") {
      seen = &fields_.dtype;
      where_ = Where::dtype_value;
    } else if (name == "shape") {
      seen = &fields_.shape;
      where_ = Where::shape_value;
    } else if (name == "data_offsets") {
      seen = &fields_.data_offsets;
      where_ = Where::offsets_value;
      offsets_seen_ = 0;
    } else {
      return fail(
          fmt::format("tensor {} has the unknown key {}", printable(entries.back().name), printable(name)));
    }
    return !std::exchange(*seen, true) || fail(fmt::format("tensor {} has the key {} twice",
                                                           printable(entries.back().name), printable(name)));
  }

  bool fail(std::string what) {
    if (error.empty()) error = std::move(what);
    return false;
  }
  bool misplaced(std::string_view what) {
    if (where_ == Where::start) return fail(fmt::format("the header is {}, not an object of tensors", what));
    const bool in_metadata = where_ == Where::metadata || where_ == Where::metadata_value;
    if (in_metadata) return fail(fmt::format("__metadata__ has {}; accepted is an object of strings", what));
    return fail(
        fmt::format("tensor {} has {} where the format has none", printable(entries.back().name), what));
  }
  bool wrong_offsets() {
    return fail(fmt::format("tensor {}: data_offsets must be two numbers, begin and end",
                            printable(entries.back().name)));
  }

  Where where_ = Where::start;
  Fields fields_;
  int offsets_seen_ = 0;
  std::set<std::string> names_, metadata_;
};

// Each tensor must be as long as its shape says, and all of them together must tile the data.
bool check_offsets(std::vector<Entry>& entries, std::uint64_t data_bytes, std::string* error) {
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    const std::string name = printable(entry.name);
    if (entry.end < entry.begin || entry.end > data_bytes) {
      *error =
          fmt::format("tensor {}: data_offsets [{}, {}] do not lie in the {} bytes of data the file holds",
                      name, entry.begin, entry.end, data_bytes);
      return false;
    }
    std::int64_t count = entry.dtype->bytes;
    bool empty = false, overflow = false;
    for (std::int64_t size : entry.shape) {
      if (size == 0)
        empty = true;
      else
        overflow = overflow || __builtin_mul_overflow(count, size, &count);
    }
    if (overflow) {
      *error = fmt::format("tensor {}: the shape {} has more bytes than 64 bits can count", name,
                           shape_text(entry.shape));
      return false;
    }
    const std::uint64_t needed = empty ? 0 : static_cast<std::uint64_t>(count);
    if (entry.end - entry.begin != needed) {
      *error = fmt::format("tensor {}: the shape {} of {} needs {} bytes, but data_offsets [{}, {}] hold {}",
                           name, shape_text(entry.shape), entry.dtype->name, needed, entry.begin, entry.end,
                           entry.end - entry.begin);
      return false;
    }
    if (entry.begin != expected) {
      *error = fmt::format("tensor {}: data_offsets [{}, {}] {} (the tensor before it ends at {})", name,
                           entry.begin, entry.end,
                           entry.begin < expected ? "overlap another tensor" : "leave a gap", expected);
      return false;
    }
    expected = entry.end;
  }
  if (expected == data_bytes) return true;
  *error = fmt::format("the file holds {} bytes of data, but its tensors take {}", data_bytes, expected);
  return false;
}

// The header text and where the data begins.
bool find_header(Bytes file, std::string_view* header, std::string* error) {
  if (file.size() < kLengthBytes) {
    *error = file.empty() ? "the file is empty" : "the file ends before the length of its header";
    return false;
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(file[i]);
  if (length > file.size() - kLengthBytes) {
    *error = fmt::format("the header claims {} bytes, but only {} follow: truncated, or no .safetensors file",
                         length, file.size() - kLengthBytes);
    return false;
  }
  if (length > kLongestSafetensorsHeader) {
    *error = fmt::format("the header has {} bytes; the format allows {}", length, kLongestSafetensorsHeader);
    return false;
  }
  *header = {reinterpret_cast<const char*>(file.data()) + kLengthBytes, static_cast<std::size_t>(length)};
  if (header->starts_with('{')) return true;
  *error = "the header does not start with '{': no .safetensors file";
  return false;
}

}  // namespace

std::optional<TensorMap> parse_safetensors(Bytes file, std::string* error) {
  std::string_view header;
  if (!find_header(file, &header, error)) return std::nullopt;

  HeaderReader reader;
  if (!Json::sax_parse(header.begin(), header.end(), &reader)) {
    *error = reader.error;
    return std::nullopt;
  }
  const Bytes data = file.subspan(kLengthBytes + header.size());
  if (!check_offsets(reader.entries, data.size(), error)) return std::nullopt;

  TensorMap tensors;
  for (Entry& entry : reader.entries) {
    if (!entry.dtype->element) continue;
    Array array{.element = *entry.dtype->element, .shape = std::move(entry.shape), .bytes = {}};
    array.bytes = data.subspan(entry.begin, entry.end - entry.begin);
    tensors.emplace(std::move(entry.name), std::move(array));
  }
  return tensors;
}

std::string safetensors_header(const std::vector<NamedShape>& tensors) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  std::int64_t begin = 0;
  for (const NamedShape& tensor : tensors) {
    const auto dtype = std::ranges::find(kDtypes, std::optional(tensor.element), &Dtype::element);
    const std::int64_t end = begin + byte_count(tensor.shape, tensor.element).value_or(0);
    json[tensor.name] = {{"dtype", dtype->name}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  // A name given on the command line may be no UTF-8; it is replaced, not thrown about.
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string header;
  for (std::uint64_t rest = text.size(), i = 0; i < kLengthBytes; ++i, rest >>= 8) {
    header += static_cast<char>(rest & 0xff);
  }
  return header + text;
}

}  // namespace tessera::files
