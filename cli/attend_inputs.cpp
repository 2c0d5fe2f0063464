// Ranks, layouts and dtypes are settled here, in terms of files; sizes that have to agree with each
// other are the library's to judge.
#include "cli/attend_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "cli/common.hpp"
#include "cli/file_tensors.hpp"

namespace tessera::cli {
namespace {

using files::Element;
using files::Shape;
using files::Tensor;

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

std::int64_t whole_at(const Tensor& tensor, std::size_t i) {
  std::int64_t value = 0;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof value, sizeof value);
  return value;
}

// The library takes page numbers of 32 bits; what does not fit into those is no page.
Tensor narrowed_table(Tensor table) {
  const auto count = static_cast<std::size_t>(table.count());
  const std::shared_ptr<std::int32_t[]> narrow(new std::int32_t[std::max<std::size_t>(count, 1)]);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t page = whole_at(table, i);
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
    p->page_table = load_whole(flags.page_table, std::array<std::string_view, 1>{"page_table"});
    p->narrow_page_table = narrowed_table(p->page_table);
    p->problem.page_table = view(p->narrow_page_table, "a page table", 2);
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

// Of 8-bit inputs. Scales have the library's own shape.
void read_scales(const AttendFlags& flags, AttendProblem* p) {
  const struct {
    const std::string& file;
    std::string_view usual;
    files::Tensor* tensor;
    tessera_tensor* view;
  } all[] = {{flags.query_scales, "query_scales", &p->query_scales, &p->problem.query_scales},
             {flags.key_scales, "key_scales", &p->key_scales, &p->problem.key_scales},
             {flags.value_scales, "value_scales", &p->value_scales, &p->problem.value_scales}};
  for (const auto& each : all) {
    if (each.file.empty()) continue;
    *each.tensor = load_f32(each.file, std::array<std::string_view, 1>{each.usual}, flags);
    *each.view = view(*each.tensor, each.usual, 4);
    // A single number is the scale of the whole tensor.
    if (each.tensor->count() == 1) *each.view = tessera_tensor_4d(each.view->data, TESSERA_F32, 1, 1, 1, 1);
  }
  p->problem.scale_rows = flags.scale_rows;
  if (flags.precision == "fast") p->problem.precision = TESSERA_PRECISION_FAST;
}

// Of the output: the query's, of an 8-bit query f16, unless --output-dtype says another.
Element output_element(const AttendFlags& flags, Element query) {
  if (!flags.output_dtype.empty()) return element_of(flags.output_dtype);
  return is_8_bit(query) ? Element::f16 : query;
}

tessera_tensor view_of_value(const AttendFlags& flags, const Tensor& value) {
  if (!flags.value_transposed) return view_4d(value, flags.layout == "bshd");
  if (is_8_bit(value.element) || value.element == Element::i8) return transposed_view_4d(value);
  usage_error(fmt::format("{}: it holds {}; with --value-transposed values of 8 bits are accepted",
                          value.source, files::element_name(value.element)));
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
  read_scales(flags, p);
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

std::string naming_page(std::string sentence, const AttendProblem& p) {
  long long entry = 0, n = 0;
  int end = 0;
  std::sscanf(sentence.c_str(), "page_table[%lld, %lld] is -1%n", &entry, &n, &end);
  if (end == 0) return sentence;
  const auto at = static_cast<std::size_t>(entry * p.page_table.shape[1] + n);
  return fmt::format("page_table[{}, {}] is {}{}", entry, n, whole_at(p.page_table, at),
                     sentence.substr(end));
}

AttendProblem read_problem(const AttendFlags& flags) {
  AttendProblem p;
  p.query = load_rows(flags.query, std::array<std::string_view, 2>{"q", "query"}, flags);
  p.key = load_rows(flags.key, std::array<std::string_view, 2>{"k", "key"}, flags);
  p.value = load_rows(flags.value, std::array<std::string_view, 2>{"v", "value"}, flags);
  if (!flags.key_tail.empty())
    p.key_tail = load_rows(flags.key_tail, std::array<std::string_view, 2>{"key_tail", "k_tail"}, flags);
  else if (!flags.key_tail_output.empty())
    usage_error("--key-tail-output needs --key-tail");
  for (const Tensor* t : {&p.key, &p.value, &p.key_tail}) {
    if (!t->owner || t->shape.size() == p.query.shape.size()) continue;
    usage_error(fmt::format(
        "{} has the shape {} and {} the shape {}: query, key and value need the same number of "
        "dimensions",
        p.query.source, files::shape_text(p.query.shape), t->source, files::shape_text(t->shape)));
  }
  const bool rows_before_heads = flags.layout == "bshd";
  p.problem.query = view_4d(p.query, rows_before_heads);
  p.problem.key = view_4d(p.key, rows_before_heads);
  p.problem.value = view_of_value(flags, p.value);
  if (p.key_tail.owner) p.problem.key_tail = view_4d(p.key_tail, rows_before_heads);
  read_options(flags, &p);
  read_append(flags, &p);

  // Before anything is allocated: a value file without keys can claim any head dimension.
  const std::int64_t value_dim = p.problem.value.shape[3];
  if (value_dim > TESSERA_MAX_HEAD_DIM) {
    usage_error(fmt::format("{}: its head dimension is {}; up to {} is accepted", p.value.source, value_dim,
                            TESSERA_MAX_HEAD_DIM));
  }
  Shape shape = p.query.shape;
  shape.back() = value_dim;
  p.output = allocate(output_element(flags, p.query.element), std::move(shape), flags.output);
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
