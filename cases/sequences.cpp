// See sequences.hpp.
#include "cases/sequences.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cases/fill.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cases {
namespace {

constexpr double kUnused = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kSparePages = 2;  // of a pool, that no entry has

std::int64_t whole_at(const tessera_tensor& t, std::int64_t n) {
  const std::int64_t at = n * t.strides[0];
  return t.dtype == TESSERA_I64 ? static_cast<const std::int64_t*>(t.data)[at]
                                : static_cast<const std::int32_t*>(t.data)[at];
}

void set_whole(const tessera_tensor& t, std::int64_t n, std::int64_t value) {
  const std::int64_t at = n * t.strides[0];
  if (t.dtype == TESSERA_I64)
    static_cast<std::int64_t*>(t.data)[at] = value;
  else
    static_cast<std::int32_t*>(t.data)[at] = static_cast<std::int32_t>(value);
}

std::int32_t& table_at(const tessera_tensor& t, std::int64_t b, std::int64_t n) {
  return static_cast<std::int32_t*>(t.data)[b * t.strides[0] + n * t.strides[1]];
}

// Of every four neighbours one has all, one none and one a single one; alone, an entry mostly has something.
std::int64_t drawn_length(const Random& draws, std::uint64_t stream, std::int64_t b, std::int64_t batch,
                          std::int64_t most) {
  const std::int64_t kinds = batch > 1 ? 4 : 8;
  const std::uint64_t base = stream << 32;
  switch ((b + draws.below(base, kinds)) % kinds) {
    case 0:
      return most;
    case 1:
      return 0;
    case 2:
      return std::min<std::int64_t>(most, 1);
    default:
      return draws.below(base + 1 + static_cast<std::uint64_t>(b), most + 1);
  }
}

// Entries one behind the other in `room`, with a gap before the first where there is room for one.
void fill_offsets(const tessera_tensor& t, const Random& draws, std::uint64_t stream, std::int64_t batch,
                  std::int64_t most, std::int64_t room) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < batch; ++b) lengths.push_back(drawn_length(draws, stream, b, batch, most));
  const std::int64_t left = room - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  std::int64_t at = draws.below((stream << 32) + (1u << 30), std::min<std::int64_t>(left, 2) + 1);
  set_whole(t, 0, at);
  for (std::int64_t b = 0; b < batch; ++b) set_whole(t, b + 1, at += lengths[static_cast<std::size_t>(b)]);
}

void set_elements(const tessera_tensor& t, std::int64_t at, std::int64_t count, double value) {
  for (std::int64_t d = 0; d < count; ++d) oracle::store(t.data, t.dtype, at + d * t.strides[3], value);
}

}  // namespace

std::int64_t tensor_entries(const Case& c) { return c.ragged ? 1 : c.batch; }
std::int64_t tensor_rows(const Case& c) { return c.ragged ? c.batch * c.queries : c.queries; }
std::int64_t table_pages(const Case& c) { return c.page == 0 ? 0 : (c.keys + c.page - 1) / c.page; }
std::int64_t pool_pages(const Case& c) { return c.batch * table_pages(c) + kSparePages; }
std::int64_t key_capacity(const Case& c) {
  if (c.page > 0) return table_pages(c) * c.page;
  return c.packed ? c.batch * c.keys : c.keys;
}

std::string sequence_words(const Case& c) {
  std::string out;
  if (c.ragged) out += " ragged";
  if (c.packed) out += " packed";
  if (c.page > 0) out += fmt::format(" pages={}", c.page);
  if (c.priors > 0) out += fmt::format(" prior={}", c.priors);
  if (c.output_dtype != 0) out += fmt::format(" out={}", tessera_dtype_name(c.output_dtype));
  return out;
}

std::string check_sequences(const Case& c) {
  if (c.packed && c.page > 0) return "packed and pages= : keys lie one behind the other or in pages";
  if (c.packed && c.key_lengths) return "packed and lengths : packed keys have offsets, which the seed draws";
  if (c.priors > 0 && !c.ragged) return "prior= : needs ragged";
  return "";
}

void add_sequence_tensors(const Case& c, std::uint64_t seed, tessera_attention* p) {
  const Random choices(seed, kChoices);
  const auto whole = [&](std::uint64_t question) {
    return choices.word(question) % 2 == 0 ? TESSERA_I64 : TESSERA_I32;
  };
  if (c.ragged) p->query_offsets = make_tensor(whole(3), {c.batch + 1});
  if (c.packed) p->key_offsets = make_tensor(whole(4), {c.batch + 1});
  if (c.page > 0) {
    p->page_table = make_tensor(TESSERA_I32, {c.batch, table_pages(c)});
    set_strides(&p->page_table, 1, c.layout == Layout::padded ? 3 : 0);
  }
  if (c.priors == 0) return;
  const std::int64_t rows = tensor_rows(c);
  const tessera_dtype dtype = choices.word(5) % 2 == 0 ? TESSERA_F32 : output_dtype(c);
  p->prior_output = make_tensor(dtype, {c.priors, c.heads, rows, c.value_dim});
  p->prior_lse = make_tensor(TESSERA_F32, {c.priors, c.heads, rows});
  for (tessera_tensor* t : {&p->prior_output, &p->prior_lse}) apply_layout(t, c.layout);
}

std::int64_t Sequences::rows_of(std::int64_t b) const {
  const tessera_tensor& t = problem_.query_offsets;
  return case_.ragged ? whole_at(t, b + 1) - whole_at(t, b) : case_.queries;
}

std::int64_t Sequences::key_length(std::int64_t b) const {
  const tessera_tensor& t = problem_.key_offsets;
  if (case_.packed) return whole_at(t, b + 1) - whole_at(t, b);
  return problem_.key_lengths.rank == 0 ? case_.keys : whole_at(problem_.key_lengths, b);
}

std::int64_t Sequences::query_at(const tessera_tensor& t, std::int64_t b, std::int64_t h,
                                 std::int64_t i) const {
  const std::int64_t entry = case_.ragged ? 0 : b;
  const std::int64_t row = case_.ragged ? whole_at(problem_.query_offsets, b) + i : i;
  return entry * t.strides[0] + h * t.strides[1] + row * t.strides[2];
}

Sequences::Stored Sequences::stored(std::int64_t b, std::int64_t j) const {
  if (case_.packed)
    return j >= key_length(b) ? Stored{-1, 0} : Stored{0, whole_at(problem_.key_offsets, b) + j};
  if (case_.page > 0) return {table_at(problem_.page_table, b, j / case_.page), j % case_.page};
  return {b, j};
}

std::int64_t Sequences::key_at(const tessera_tensor& t, std::int64_t b, std::int64_t h,
                               std::int64_t j) const {
  const auto [entry, row] = stored(b, j);
  return entry < 0 ? -1 : entry * t.strides[0] + h * t.strides[1] + row * t.strides[2];
}

std::int64_t Sequences::key_row(const tessera_tensor& t, std::int64_t b, std::int64_t h,
                                std::int64_t j) const {
  const auto [entry, row] = stored(b, j);
  return entry < 0 ? -1 : (entry * t.shape[1] + h) * t.shape[2] + row;
}

Sequences::Span Sequences::seen(std::int64_t b) const {
  const std::int64_t rows = rows_of(b), keys = key_length(b);
  if (rows == 0) return {0, 0};
  if (case_.align == TESSERA_ALIGN_NONE) return {0, keys};
  const std::int64_t first = case_.align == TESSERA_ALIGN_BOTTOM_RIGHT ? keys - rows : 0;
  Span span{0, keys};
  if (case_.left != TESSERA_UNBOUNDED) span.begin = std::max(span.begin, first - case_.left);
  if (case_.right != TESSERA_UNBOUNDED) span.end = std::min(span.end, first + rows + case_.right);
  return span.begin < span.end ? span : Span{0, 0};
}

void Sequences::fill_lengths(std::uint64_t seed) const {
  const Case& c = case_;
  const Random draws(seed, kLengths);
  if (c.ragged) fill_offsets(problem_.query_offsets, draws, 1, c.batch, c.queries, tensor_rows(c));
  if (c.packed) fill_offsets(problem_.key_offsets, draws, 2, c.batch, c.keys, key_capacity(c));
  if (problem_.key_lengths.rank == 0) return;
  for (std::int64_t b = 0; b < c.batch; ++b)
    set_whole(problem_.key_lengths, b, c.key_lengths ? drawn_length(draws, 3, b, c.batch, c.keys) : c.keys);
}

// Pages of the pool in a drawn order; where no key needs one, a number that is none.
void Sequences::fill_table(std::uint64_t seed) const {
  const Random draws(seed, kPages);
  std::vector<std::int32_t> order(static_cast<std::size_t>(pool_pages(case_)));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t n = order.size(); n > 1; --n)
    std::swap(order[n - 1], order[static_cast<std::size_t>(draws.below(n, static_cast<std::int64_t>(n)))]);
  std::size_t next = 0;
  for (std::int64_t b = 0; b < case_.batch; ++b) {
    const Span span = seen(b);
    for (std::int64_t n = 0; n < table_pages(case_); ++n) {
      const bool needed = n * case_.page < span.end && (n + 1) * case_.page > span.begin;
      table_at(problem_.page_table, b, n) = needed ? order[next++] : -1;
    }
  }
}

void Sequences::fill_priors(std::uint64_t seed, bool equal) const {
  const tessera_tensor &output = problem_.prior_output, &lse = problem_.prior_lse;
  const Random draws(seed, kPrior);
  fill_with(output, draws, [&](std::int64_t, std::int64_t, double draw) { return equal ? 0.75 : draw; });
  for (std::int64_t r = 0, rows = lse.shape[0] * lse.shape[1] * lse.shape[2]; r < rows; ++r) {
    const std::int64_t row = r % lse.shape[2], head = r / lse.shape[2] % lse.shape[1],
                       part = r / lse.shape[2] / lse.shape[1];
    const auto index = static_cast<std::uint64_t>(r) + (std::uint64_t{1} << 40);
    const bool none = draws.word(index) % 4 == 0;  // this part saw nothing: its output may hold anything
    static_cast<float*>(lse.data)[part * lse.strides[0] + head * lse.strides[1] + row * lse.strides[2]] =
        none ? -INFINITY : 3 * draws.normal(index);
    if (none) set_elements(output, row_offset(output, r), output.shape[3], kUnused);
  }
}

// NaN for the scales of pages that no entry has.
void Sequences::poison_scales() const {
  if (case_.page == 0) return;
  std::vector<bool> used(static_cast<std::size_t>(pool_pages(case_)));
  for (std::int64_t b = 0; b < case_.batch; ++b)
    for (std::int64_t n = 0; n < table_pages(case_); ++n)
      if (const std::int32_t page = table_at(problem_.page_table, b, n); page >= 0)
        used[static_cast<std::size_t>(page)] = true;
  for (const tessera_tensor* t : {&problem_.key_scales, &problem_.value_scales}) {
    if (t->rank == 0 || t->shape[0] == 1) continue;
    for (std::int64_t r = 0, rows = t->shape[0] * t->shape[1] * t->shape[2]; r < rows; ++r)
      if (!used[static_cast<std::size_t>(r / t->shape[2] / t->shape[1])])
        set_elements(*t, row_offset(*t, r), t->shape[3], kUnused);
  }
}

// NaN in the tails of last pages, in pages that no entry has, in keys and rows of no entry.
void Sequences::poison_unused() const {
  const Case& c = case_;
  for (const tessera_tensor* t : {&problem_.key, &problem_.value, &problem_.key_tail}) {
    if (t->rank == 0 || (c.page == 0 && !c.packed)) continue;
    std::vector<bool> used(static_cast<std::size_t>(t->shape[0] * t->shape[2]));
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t j = 0; j < key_length(b); ++j)
        if (const std::int64_t at = key_at(*t, b, 0, j); at >= 0) {
          const std::int64_t entry = c.page > 0 ? table_at(problem_.page_table, b, j / c.page) : 0;
          const std::int64_t row = c.page > 0 ? j % c.page : whole_at(problem_.key_offsets, b) + j;
          used[static_cast<std::size_t>(entry * t->shape[2] + row)] = true;
        }
    for (std::int64_t r = 0, rows = t->shape[0] * t->shape[1] * t->shape[2]; r < rows; ++r) {
      const std::int64_t row = r % t->shape[2], entry = r / t->shape[2] / t->shape[1];
      if (!used[static_cast<std::size_t>(entry * t->shape[2] + row)])
        set_elements(*t, row_offset(*t, r), t->shape[3], kUnused);
    }
  }
  poison_scales();
  if (!c.ragged) return;
  const std::int64_t begin = whole_at(problem_.query_offsets, 0),
                     end = whole_at(problem_.query_offsets, c.batch);
  for (const tessera_tensor* t : {&problem_.query, &problem_.prior_output}) {
    for (std::int64_t r = 0, rows = t->shape[0] * t->shape[1] * t->shape[2]; r < rows; ++r) {
      const std::int64_t row = r % t->shape[2];
      if (row < begin || row >= end) set_elements(*t, row_offset(*t, r), t->shape[3], kUnused);
    }
  }
}

}  // namespace tessera::cases
