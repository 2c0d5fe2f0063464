// See haystack.hpp.
#include "tests/fp8/haystack.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>

#include "cases/random.hpp"

namespace tessera::fp8 {
namespace {

// What part of each row's weight they have, the first of them on average.
struct Shares {
  double sink, needle;
};

constexpr std::int64_t kSinkChannel = 0;  // 0 in all keys but the sink
constexpr float kSinkQuery = 4;           // what every query has there
constexpr float kKeyMean = 10, kValueMean = 8;

bool is_outlier(std::int64_t channel) { return channel % 16 == 8; }

std::vector<float> draws(std::uint64_t seed, std::uint64_t stream, std::int64_t count) {
  const cases::Random random(seed, stream);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t n = 0; n < out.size(); ++n) out[n] = random.normal(n);
  return out;
}

void add_outliers(std::vector<float>* rows, std::int64_t dim, float mean) {
  for (std::size_t n = 0; n < rows->size(); ++n) {
    if (is_outlier(static_cast<std::int64_t>(n) % dim)) (*rows)[n] += mean;
  }
}

std::span<float> row_of(std::vector<float>& rows, std::int64_t row, std::int64_t dim) {
  return {rows.data() + row * dim, static_cast<std::size_t>(dim)};
}

double score(std::span<const float> query, std::span<const float> key) {
  const double dot = std::inner_product(query.begin(), query.end(), key.begin(), 0.0);
  return dot / std::sqrt(static_cast<double>(query.size()));
}

// The log of the sum of exp(score) over all keys.
double log_weight(Haystack& h, std::int64_t row) {
  double sum = 0;  // scores are small: nothing overflows
  for (std::int64_t j = 0; j < h.keys; ++j)
    sum += std::exp(score(row_of(h.query, row, h.dim), row_of(h.key, j, h.dim)));
  return std::log(sum);
}

// A key along the row's query, but for the outliers and the sink's channel, that gets this score.
void set_needle(Haystack& h, std::int64_t row, double wanted) {
  const std::span<float> query = row_of(h.query, row, h.dim),
                         key = row_of(h.key, h.needles[static_cast<std::size_t>(row)], h.dim);
  const auto along = [&](std::int64_t d) { return d != kSinkChannel && !is_outlier(d); };
  double square = 0;
  for (std::int64_t d = 0; d < h.dim; ++d) {
    const auto n = static_cast<std::size_t>(d);
    if (!along(d)) continue;
    key[n] = 0;
    square += static_cast<double>(query[n]) * query[n];
  }
  const double missing = (wanted - score(query, key)) * std::sqrt(static_cast<double>(h.dim)) / square;
  for (std::int64_t d = 0; d < h.dim; ++d) {
    const auto n = static_cast<std::size_t>(d);
    if (along(d)) key[n] = static_cast<float>(missing * query[n]);
  }
}

// The first key: large in a channel of its own, which all queries look at, and next to nothing in V.
void set_sink(Haystack& h, double above_offset) {
  const std::span<float> key = row_of(h.key, 0, h.dim), value = row_of(h.value, 0, h.dim);
  for (std::int64_t d = 0; d < h.dim; ++d) {
    const auto n = static_cast<std::size_t>(d);
    key[n] = is_outlier(d) ? kKeyMean : key[n] / 2;
    value[n] = 0.1f * (is_outlier(d) ? value[n] - kValueMean : value[n]);
  }
  key[kSinkChannel] = static_cast<float>(above_offset * std::sqrt(static_cast<double>(h.dim)) / kSinkQuery);
}

// What the outliers of K add to every score of a row.
double offset(Haystack& h, std::int64_t row) {
  const std::span<float> query = row_of(h.query, row, h.dim);
  double sum = 0;
  for (std::size_t d = 0; d < query.size(); ++d)
    if (is_outlier(static_cast<std::int64_t>(d))) sum += static_cast<double>(kKeyMean * query[d]);
  return sum / std::sqrt(static_cast<double>(h.dim));
}

void add_sink_and_needles(Haystack& h, const Shares& shares) {
  for (std::int64_t r = 0; r < kRows; ++r) row_of(h.query, r, h.dim)[kSinkChannel] = kSinkQuery;
  for (std::int64_t j = 0; j < h.keys; ++j) row_of(h.key, j, h.dim)[kSinkChannel] = 0;
  const double rest = 1 - shares.sink - shares.needle;
  std::vector<double> weights;
  double above_offset = 0;
  for (std::int64_t r = 0; r < kRows; ++r) {
    weights.push_back(log_weight(h, r));
    above_offset += (weights.back() - offset(h, r)) / kRows;
  }
  set_sink(h, above_offset + std::log(shares.sink / rest));
  if (shares.needle == 0) return;
  for (std::int64_t r = 0; r < kRows; ++r) {
    h.needles.push_back((2 * r + 1) * h.keys / (2 * kRows) + 17);
    set_needle(h, r, weights[static_cast<std::size_t>(r)] + std::log(shares.needle / rest));
  }
}

tessera_tensor quantise(Attention* a, const std::vector<float>& input, cases::ScaleKind kind,
                        const Coding& coding, bool smooth, bool hadamard, tessera_tensor* scales) {
  const std::int64_t dim = a->problem.query.shape[3], rows = static_cast<std::int64_t>(input.size()) / dim;
  tessera_quantisation q = TESSERA_QUANTISATION_INIT;
  const bool by_block = kind == cases::ScaleKind::block64, by_channel = kind == cases::ScaleKind::channel;
  q.input = tessera_tensor_4d(const_cast<float*>(input.data()), TESSERA_F32, 1, 1, rows, dim);  // read only
  q.output = a->add(TESSERA_F8E4M3, 1, rows, dim);
  q.scales = a->add(TESSERA_F32, 1, by_block ? (rows + 63) / 64 : 1, by_channel ? dim : 1);
  if (smooth) q.means = a->add(TESSERA_F32, 1, 1, dim);
  q.scale_rows = by_block ? 64 : 0;
  q.hadamard = hadamard ? 1 : 0;
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  if (tessera_quantise(&q, &cpu) != TESSERA_OK) {
    std::fprintf(stderr, "%s: %s\n", words(coding).c_str(), tessera_last_error());
    std::abort();
  }
  *scales = q.scales;
  return q.output;
}

tessera_tensor rounded(Attention* a, const std::vector<float>& input, std::int64_t dim, tessera_dtype dtype) {
  const tessera_tensor t = a->add(dtype, 1, static_cast<std::int64_t>(input.size()) / dim, dim);
  for (std::size_t n = 0; n < input.size(); ++n)
    oracle::store(t.data, dtype, static_cast<std::int64_t>(n), static_cast<double>(input[n]));
  return t;
}

}  // namespace

std::string_view name(Input input) {
  constexpr std::string_view kNames[] = {"normal", "outliers", "needle", "sink"};
  return kNames[static_cast<int>(input)];
}

std::string words(const Coding& coding) {
  const auto name_of = [](cases::ScaleKind kind) {
    return kind == cases::ScaleKind::block64   ? "block64"
           : kind == cases::ScaleKind::channel ? "channel"
                                               : "head";
  };
  std::string out = name_of(coding.query_key);
  if (coding.value != coding.query_key) out += std::string(", V by ") + name_of(coding.value);
  if (coding.smooth) out += ", smooth";
  if (coding.hadamard) out += ", hadamard";
  return out;
}

Haystack make_haystack(Input input, std::int64_t keys, std::int64_t dim, std::uint64_t seed) {
  Haystack h{keys,
             dim,
             draws(seed, cases::kQuery, kRows * dim),
             draws(seed, cases::kKey, keys * dim),
             draws(seed, cases::kValue, keys * dim),
             {}};
  if (input == Input::normal) return h;
  add_outliers(&h.key, dim, kKeyMean);
  add_outliers(&h.value, dim, kValueMean);
  if (input == Input::needle) add_sink_and_needles(h, {0.2, 0.2});
  if (input == Input::sink) add_sink_and_needles(h, {0.8, 0});
  return h;
}

tessera_tensor Attention::add(tessera_dtype dtype, std::int64_t heads, std::int64_t count,
                              std::int64_t columns) {
  memory.emplace_back(static_cast<std::size_t>(heads * count * columns) * tessera_dtype_size(dtype));
  return tessera_tensor_4d(memory.back().data(), dtype, 1, heads, count, columns);
}

std::vector<double> Attention::output() const {
  const tessera_tensor& o = problem.output;
  std::vector<double> out(static_cast<std::size_t>(o.shape[2] * o.shape[3]));
  for (std::size_t n = 0; n < out.size(); ++n)
    out[n] = oracle::load(o.data, o.dtype, static_cast<std::int64_t>(n));
  return out;
}

Attention as_given(const Haystack& h, tessera_dtype dtype) {
  Attention a;
  a.problem.query = rounded(&a, h.query, h.dim, dtype);
  a.problem.key = rounded(&a, h.key, h.dim, dtype);
  a.problem.value = rounded(&a, h.value, h.dim, dtype);
  a.problem.output = a.add(TESSERA_F32, 1, kRows, h.dim);
  a.rows = oracle::every_row(a.problem);
  return a;
}

Attention without_needles(const Haystack& h) {
  Attention a = as_given(h, TESSERA_F32);
  a.problem.mask.tensor = a.add(TESSERA_BOOL, 1, kRows, h.keys);
  auto* const seen = static_cast<unsigned char*>(a.problem.mask.tensor.data);
  std::fill_n(seen, kRows * h.keys, static_cast<unsigned char>(1));
  for (std::int64_t r = 0; r < kRows; ++r) seen[r * h.keys + h.needles[static_cast<std::size_t>(r)]] = 0;
  return a;
}

Attention as_codes(const Haystack& h, const Coding& c, tessera_dtype output) {
  Attention a;
  a.problem.query.shape[3] = h.dim;
  a.problem.query = quantise(&a, h.query, c.query_key, c, false, c.hadamard, &a.problem.query_scales);
  a.problem.key = quantise(&a, h.key, c.query_key, c, c.smooth, c.hadamard, &a.problem.key_scales);
  a.problem.value = quantise(&a, h.value, c.value, c, false, false, &a.problem.value_scales);
  a.problem.scale_rows = c.query_key == cases::ScaleKind::block64 ? 64 : 0;
  a.problem.output = a.add(output, 1, kRows, h.dim);
  a.rows = oracle::every_row(a.problem);
  return a;
}

Needles::Needles(const Haystack& h) {
  const Attention with = as_given(h, TESSERA_F32);
  truth_ = oracle::attend(with.problem, with.rows).output;
  if (h.needles.empty()) return;
  const Attention without = without_needles(h);
  without_ = oracle::attend(without.problem, without.rows).output;
}

std::vector<double> Needles::found(const std::vector<double>& output) const {
  std::vector<double> of_rows;
  if (without_.empty()) return of_rows;
  const std::size_t dim = output.size() / kRows;
  for (std::size_t first = 0; first < output.size(); first += dim) {
    double along = 0, whole = 0;
    for (std::size_t n = first; n < first + dim; ++n) {
      const double needle = truth_[n] - without_[n];
      along += (output[n] - without_[n]) * needle;
      whole += needle * needle;
    }
    of_rows.push_back(along / whole);
  }
  return of_rows;
}

}  // namespace tessera::fp8
