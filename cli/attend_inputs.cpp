// Ranks, layouts and dtypes are settled here, in terms of files; sizes that have to agree with each
// other are the library's to judge.
#include "cli/attend_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "cli/common.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cli {
namespace {

using files::Element;
using files::Shape;
using files::Tensor;
using Names = std::span<const std::string_view>;

// 0 if the library has no tensor of such elements.
tessera_dtype dtype_of(Element element) {
  switch (element) {
    case Element::f32:
      return TESSERA_F32;
    case Element::f16:
      return TESSERA_F16;
    case Element::bf16:
      return TESSERA_BF16;
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

bool is_float(Element e) { return e == Element::f32 || e == Element::f16 || e == Element::bf16; }

Tensor load(const std::string& name, Names usual_names) {
  std::string error;
  std::optional<Tensor> tensor = files::load_tensor(name, usual_names, &error);
  if (!tensor) usage_error(error);
  return *std::move(tensor);
}

// A tensor of f32, f16, bf16 or, where allowed, bool.
Tensor load_numbers(const std::string& name, Names usual_names, const AttendFlags& flags,
                    bool allow_boolean) {
  Tensor tensor = load(name, usual_names);
  const bool two_bytes =
      tensor.element == Element::raw16 || tensor.element == Element::u16 || tensor.element == Element::i16;
  if (two_bytes && !flags.dtype.empty()) {
    tensor.element = flags.dtype == "f16" ? Element::f16 : Element::bf16;
  } else if (tensor.element == Element::raw16) {
    tensor.element = Element::bf16;  // the only 16-bit type NumPy itself cannot name
  }
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

// Slopes and sinks: the library takes f32, into which the narrower types fit exactly.
Tensor load_f32(const std::string& name, Names usual_names, const AttendFlags& flags) {
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

// A contiguous view of the tensor's own rank; at least rank 1, so that a lone number is a list of one.
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

// The same memory as [batch, heads, rows, dim]: missing dimensions become 1, and [batch, rows, heads,
// dim] is a matter of strides.
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

float parse_float(std::string_view flag, const std::string& text) {
  float value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  usage_error(fmt::format("{} is '{}'; a finite number that float32 can hold is accepted", flag, text));
}

std::int64_t parse_side(const std::string& window, std::string_view text) {
  if (text == "unbounded") return TESSERA_UNBOUNDED;
  std::int64_t keys = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), keys);
  if (failed == std::errc() && end == text.data() + text.size() && keys >= 0) return keys;
  usage_error(
      fmt::format("--window is '{}'; accepted: LEFT,RIGHT, each a number of keys of 0 or more, or "
                  "'unbounded'",
                  window));
}

tessera_align parse_align(const std::string& text) {
  return text == "top-left" ? TESSERA_ALIGN_TOP_LEFT
         : text.empty()     ? TESSERA_ALIGN_NONE
                            : TESSERA_ALIGN_BOTTOM_RIGHT;
}

// Causal and window together: a key must be visible to both.
void set_band(const AttendFlags& flags, tessera_mask* mask) {
  const tessera_align causal = parse_align(flags.causal);
  const tessera_align align = parse_align(flags.align);
  if (causal != TESSERA_ALIGN_NONE && align != TESSERA_ALIGN_NONE && causal != align) {
    usage_error(fmt::format("--causal {} and --align {} contradict each other", flags.causal, flags.align));
  }
  mask->align = causal != TESSERA_ALIGN_NONE ? causal : align;
  if (!flags.window.empty()) {
    if (mask->align == TESSERA_ALIGN_NONE) {
      usage_error(
          "--window needs --align top-left or --align bottom-right (or --causal) to place the queries");
    }
    const std::size_t comma = flags.window.find(',');
    if (comma == std::string::npos) parse_side(flags.window, "");
    mask->left = parse_side(flags.window, std::string_view(flags.window).substr(0, comma));
    mask->right = parse_side(flags.window, std::string_view(flags.window).substr(comma + 1));
  }
  if (causal != TESSERA_ALIGN_NONE) mask->right = 0;
}

Tensor load_whole(const std::string& name, Names usual_names) {
  std::string error;
  const std::optional<Tensor> numbers = files::as_int64(load(name, usual_names), &error);
  if (!numbers) usage_error(error);
  return *numbers;
}

// The library takes page numbers of 32 bits; what does not fit into those is no page.
Tensor load_table(const std::string& name, Names usual_names) {
  Tensor table = load_whole(name, usual_names);
  const auto count = static_cast<std::size_t>(table.count());
  const std::shared_ptr<std::int32_t[]> narrow(new std::int32_t[std::max<std::size_t>(count, 1)]);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t page = 0;
    std::memcpy(&page, table.bytes.data() + i * sizeof page, sizeof page);
    narrow[i] = page == static_cast<std::int32_t>(page) ? static_cast<std::int32_t>(page) : -1;
  }
  table.element = Element::i32;
  table.bytes = std::as_bytes(std::span(narrow.get(), count));
  table.owner = narrow;
  return table;
}

// Batches whose entries differ in length, and prior results: in the library's own shapes, whatever --layout
// says.
void read_sequences(const AttendFlags& flags, AttendProblem* p) {
  if (!flags.query_offsets.empty()) {
    p->query_offsets = load_whole(flags.query_offsets, std::array<std::string_view, 1>{"query_offsets"});
    p->problem.query_offsets = view(p->query_offsets, "a list of offsets", 1);
  }
  if (!flags.key_offsets.empty()) {
    p->key_offsets = load_whole(flags.key_offsets, std::array<std::string_view, 1>{"key_offsets"});
    p->problem.key_offsets = view(p->key_offsets, "a list of offsets", 1);
  }
  if (!flags.page_table.empty()) {
    p->page_table = load_table(flags.page_table, std::array<std::string_view, 1>{"page_table"});
    p->problem.page_table = view(p->page_table, "a page table", 2);
  }
  if (!flags.prior_output.empty()) {
    p->prior_output = load_numbers(flags.prior_output,
                                   std::array<std::string_view, 2>{"prior_output", "output"}, flags, false);
    p->problem.prior_output = view(p->prior_output, "prior output", 4);
  }
  if (!flags.prior_lse.empty()) {
    p->prior_lse = load_f32(flags.prior_lse, std::array<std::string_view, 2>{"prior_lse", "lse"}, flags);
    p->problem.prior_lse = view(p->prior_lse, "prior lse", 3);
  }
}

void read_options(const AttendFlags& flags, AttendProblem* p) {
  if (!flags.mask.empty()) {
    p->mask = load_numbers(flags.mask, std::array<std::string_view, 2>{"mask", "attn_mask"}, flags, true);
    p->problem.mask.tensor = view(p->mask, "a mask", 4);
  }
  p->problem.mask.tensor_align = parse_align(flags.mask_align);
  if (!flags.key_lengths.empty()) {
    p->key_lengths = load_whole(flags.key_lengths, std::array<std::string_view, 2>{"key_lengths", "lengths"});
    p->problem.key_lengths = view(p->key_lengths, "a list of key lengths", 1);
  }
  read_sequences(flags, p);
  if (!flags.alibi.empty()) {
    p->alibi = load_f32(flags.alibi, std::array<std::string_view, 2>{"alibi_slopes", "alibi"}, flags);
    p->problem.alibi_slopes = view(p->alibi, "a list of slopes", 2);
  }
  if (!flags.sinks.empty()) {
    p->sinks = load_f32(flags.sinks, std::array<std::string_view, 1>{"sinks"}, flags);
    p->problem.sinks = view(p->sinks, "a list of sinks", 1);
  }
  set_band(flags, &p->problem.mask);
  if (!flags.softcap.empty()) p->problem.softcap = parse_float("--softcap", flags.softcap);
  if (!flags.scale.empty()) {
    p->problem.scale = parse_float("--scale", flags.scale);
    if (p->problem.scale == 0) p->problem.scale = TESSERA_SCALE_ZERO;  // in C 0 asks for the default
  }
}

}  // namespace

AttendProblem read_problem(const AttendFlags& flags) {
  AttendProblem p;
  p.query = load_numbers(flags.query, std::array<std::string_view, 2>{"q", "query"}, flags, false);
  p.key = load_numbers(flags.key, std::array<std::string_view, 2>{"k", "key"}, flags, false);
  p.value = load_numbers(flags.value, std::array<std::string_view, 2>{"v", "value"}, flags, false);
  for (const Tensor* t : {&p.key, &p.value}) {
    if (t->shape.size() == p.query.shape.size()) continue;
    usage_error(fmt::format(
        "{} has the shape {} and {} the shape {}: query, key and value need the same number of "
        "dimensions",
        p.query.source, files::shape_text(p.query.shape), t->source, files::shape_text(t->shape)));
  }
  const bool rows_before_heads = flags.layout == "bshd";
  p.problem.query = view_4d(p.query, rows_before_heads);
  p.problem.key = view_4d(p.key, rows_before_heads);
  p.problem.value = view_4d(p.value, rows_before_heads);
  read_options(flags, &p);

  // Before anything is allocated: a value file without keys can claim any head dimension.
  const std::int64_t value_dim = p.problem.value.shape[3];
  if (value_dim > TESSERA_MAX_HEAD_DIM) {
    usage_error(fmt::format("{}: its head dimension is {}; up to {} is accepted", p.value.source, value_dim,
                            TESSERA_MAX_HEAD_DIM));
  }
  Shape shape = p.query.shape;
  shape.back() = value_dim;
  p.output = allocate(p.query.element, std::move(shape), flags.output);
  p.problem.output = view_4d(p.output, rows_before_heads);
  // lse is [batch, heads, queries] in either layout, as the library defines it.
  const std::int64_t* q = p.problem.query.shape;
  const Shape full = {q[0], q[1], q[2]};
  if (!flags.lse.empty()) {
    p.lse = allocate(Element::f32, full, flags.lse);
    p.problem.lse = view(p.lse, "lse", 3);
    p.lse.shape.erase(p.lse.shape.begin(),
                      p.lse.shape.begin() + (4 - static_cast<int>(p.query.shape.size())));
  }
  return p;
}

}  // namespace tessera::cli
