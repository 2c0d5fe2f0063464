// Reads the header with a parser for exactly the dict literal the format allows, nothing more: three
// keys, each once, a string, a boolean and a tuple. The claimed length and shape are held against the
// bytes that are there before anything else happens.
#include "cli/files/npy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

namespace tessera::files {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// NumPy's own headers are 64 to 256 bytes; only structured types, not accepted here, need more.
constexpr std::size_t kLongestNpyHeader = 65535;

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool parse(Array* array, std::string* error) {
    if (parse_dict(array)) return true;
    *error = error_;
    return false;
  }

 private:
  bool fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }
  bool fail_here(std::string_view expected) {
    return fail(fmt::format("the header is malformed: expected {} at byte {}, found {}", expected, at_,
                            at_ < text_.size() ? printable(text_.substr(at_, 12)) : "its end"));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  bool parse_dict(Array* array) {
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take("{")) return fail_here("'{'");
    while (!take("}")) {
      std::string_view key;
      if (!parse_string(&key)) return false;
      bool* seen = key == "descr" ? &has_descr : key == "fortran_order" ? &has_order : &has_shape;
      if (seen == &has_shape && key != "shape") {
        return fail(fmt::format("the header has the unknown key {}", printable(key)));
      }
      if (std::exchange(*seen, true)) return fail(fmt::format("the header has the key '{}' twice", key));
      if (!take(":")) return fail_here("':'");
      if (seen == &has_descr   ? !parse_descr(array)
          : seen == &has_order ? !parse_order(array)
                               : !parse_shape(array)) {
        return false;
      }
      if (take(",")) continue;
      if (!take("}")) return fail_here("',' or '}'");
      break;
    }
    skip_spaces();
    if (at_ != text_.size()) return fail_here("nothing more");
    for (auto [seen, name] :
         {std::pair{has_descr, "descr"}, {has_order, "fortran_order"}, {has_shape, "shape"}}) {
      if (!seen) return fail(fmt::format("the header has no '{}'", name));
    }
    return true;
  }

  // Quotes of either kind; no escapes, since no accepted value has any.
  bool parse_string(std::string_view* out) {
    skip_spaces();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return fail_here("a string");
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return fail_here("a string that ends");
    *out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  bool parse_order(Array* array) {
    array->fortran_order = take("True");
    return array->fortran_order || take("False") || fail_here("True or False");
  }

  bool parse_shape(Array* array) {
    if (!take("(")) return fail_here("a tuple");
    while (!take(")")) {
      std::int64_t size = 0;
      if (!parse_size(&size)) return false;
      array->shape.push_back(size);
      if (array->shape.size() > kMaxFileRank) {
        return fail(fmt::format("the shape has more than {} dimensions", kMaxFileRank));
      }
      if (take(",")) continue;
      // In Python (3) is a number, not a tuple.
      if (array->shape.size() < 2) return fail_here("','");
      if (!take(")")) return fail_here("',' or ')'");
      break;
    }
    return true;
  }

  bool parse_size(std::int64_t* size) {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '-') return fail("the shape has a negative size");
    const std::size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, text_[at_] - '0', size)) {
        return fail("the shape has a size that does not fit 64 bits");
      }
    }
    if (at_ == begin) return fail_here("a size");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote its long integers so
    return true;
  }

  bool parse_descr(Array* array) {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '[') {
      return fail("its elements are records (a structured dtype); accepted are plain number types");
    }
    std::string_view descr;
    if (!parse_string(&descr)) return false;
    static constexpr std::array<std::pair<std::string_view, Element>, 13> kKinds = {{
        {"f8", Element::f64},
        {"f4", Element::f32},
        {"f2", Element::f16},
        {"V2", Element::raw16},
        {"b1", Element::boolean},
        {"i1", Element::i8},
        {"i2", Element::i16},
        {"i4", Element::i32},
        {"i8", Element::i64},
        {"u1", Element::u8},
        {"u2", Element::u16},
        {"u4", Element::u32},
        {"u8", Element::u64},
    }};
    if (descr == "bfloat16") {
      array->element = Element::bf16;
      return true;
    }
    const char order = descr.empty() ? '?' : descr.front();
    for (auto [kind, element] : kKinds) {
      if (descr.size() != 3 || descr.substr(1) != kind) continue;
      // '|' says that order does not matter: true of single bytes and of raw ones.
      const bool orderless = element_size(element) == 1 || element == Element::raw16;
      if (order != '<' && order != '>' && !(order == '|' && orderless)) break;
      array->element = element;
      array->big_endian = order == '>';
      return true;
    }
    return fail(
        fmt::format("its dtype is {}, which is not accepted: f2, f4, f8, V2 (as bfloat16), b1, i1 to i8 "
                    "and u1 to u8 are, with '<' or '>' in front",
                    printable(descr)));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
};

std::size_t little_endian(Bytes bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::size_t>(bytes[i]);
  return value;
}

// The header text and where the data begins.
bool find_header(Bytes file, std::string_view* header, std::size_t* data_begin, std::string* error) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic)) {
    *error = text.empty() ? "the file is empty"
             : text.starts_with("PK\x03\x04")
                 ? "this is a zip archive (.npz?); accepted is a single array (.npy)"
                 : "this is no .npy file: it does not start with \\x93NUMPY";
    return false;
  }
  const std::size_t fixed = kMagic.size() + 2;
  if (file.size() < fixed) {
    *error = "the file ends inside its first 8 bytes";
    return false;
  }
  const auto major = std::to_integer<int>(file[kMagic.size()]);
  const auto minor = std::to_integer<int>(file[kMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    *error = fmt::format("the .npy version is {}.{}; accepted are 1.0, 2.0 and 3.0", major, minor);
    return false;
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (file.size() < fixed + length_bytes) {
    *error = "the file ends before the length of its header";
    return false;
  }
  const std::size_t length = little_endian(file.subspan(fixed, length_bytes));
  const std::size_t begin = fixed + length_bytes;
  if (length > file.size() - begin) {
    *error = fmt::format("the header claims {} bytes, but only {} follow", length, file.size() - begin);
    return false;
  }
  if (length > kLongestNpyHeader) {
    *error = fmt::format("the header has {} bytes; accepted are at most {}", length, kLongestNpyHeader);
    return false;
  }
  *header = text.substr(begin, length);
  *data_begin = begin + length;
  return true;
}

}  // namespace

std::optional<Array> parse_npy(Bytes file, std::string* error) {
  std::string_view header;
  std::size_t data_begin = 0;
  if (!find_header(file, &header, &data_begin, error)) return std::nullopt;

  Array array;
  if (!HeaderParser(header).parse(&array, error)) return std::nullopt;

  const std::optional<std::int64_t> bytes = byte_count(array.shape, array.element);
  if (!bytes) {
    *error = fmt::format("the shape {} has more bytes than 64 bits can count", shape_text(array.shape));
    return std::nullopt;
  }
  array.bytes = file.subspan(data_begin);
  if (array.bytes.size() != static_cast<std::size_t>(*bytes)) {
    *error = fmt::format("the shape {} of {} needs {} bytes of data, but the file holds {}",
                         shape_text(array.shape), element_name(array.element), *bytes, array.bytes.size());
    return std::nullopt;
  }
  return array;
}

std::string npy_header(Element element, const Shape& shape) {
  const char* descr = "";
  switch (element) {
    case Element::f64:
      descr = "<f8";
      break;
    case Element::f32:
      descr = "<f4";
      break;
    case Element::f16:
      descr = "<f2";
      break;
    case Element::bf16:
    case Element::raw16:
      descr = "<V2";
      break;
    case Element::boolean:
      descr = "|b1";
      break;
    case Element::i8:
      descr = "|i1";
      break;
    case Element::i16:
      descr = "<i2";
      break;
    case Element::i32:
      descr = "<i4";
      break;
    case Element::i64:
      descr = "<i8";
      break;
    case Element::f8e4m3:  // NumPy has no name for them: their bits
    case Element::f8e5m2:
    case Element::u8:
      descr = "|u1";
      break;
    case Element::u16:
      descr = "<u2";
      break;
    case Element::u32:
      descr = "<u4";
      break;
    case Element::u64:
      descr = "<u8";
      break;
  }
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // NumPy leaves room for the first dimension to grow to 21 digits in place, ...
  if (!shape.empty()) dict.append(21 - fmt::formatted_size("{}", shape[0]), ' ');
  // ... then pads so that the data starts on a multiple of 64 bytes.
  const std::size_t prefix_bytes = kMagic.size() + 4;
  dict.append(64 - (prefix_bytes + dict.size() + 1) % 64, ' ');
  dict += '\n';
  // kMaxFileRank sizes of 20 characters stay far below the 65,535 bytes that version 1.0 can say.
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

}  // namespace tessera::files
