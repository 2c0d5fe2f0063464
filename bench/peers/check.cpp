#include "check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "oracle/oracle.hpp"

namespace tessera::peers {
namespace {

constexpr double kMultiplyAddBudget = 1.5e8;
constexpr std::int64_t kLeastRows = 32;

std::vector<std::int64_t> rows_to_check(const Shape& shape, std::uint64_t seed) {
  const std::int64_t all = shape.query_rows();
  const auto affordable =
      static_cast<std::int64_t>(kMultiplyAddBudget / static_cast<double>(2 * shape.keys * shape.dim));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(all));
  std::iota(rows.begin(), rows.end(), 0);
  const std::int64_t wanted = std::max(affordable, kLeastRows);
  if (wanted >= all) return rows;
  std::mt19937_64 generator(seed);
  std::shuffle(rows.begin() + 1, rows.end() - 1, generator);
  std::swap(rows[1], rows.back());  // the first and the last row are always among them
  rows.resize(static_cast<std::size_t>(wanted));
  return rows;
}

char* at(const Buffer& buffer, tessera_dtype dtype, std::int64_t element) {
  return static_cast<char*>(buffer.data()) + static_cast<std::size_t>(element) * tessera_dtype_size(dtype);
}

// One query row as a problem of its own. A causal row sees a prefix of the keys, so it needs no mask.
tessera_attention row_problem(const Shape& s, const Inputs& in, std::int64_t row) {
  const std::int64_t head = row / s.queries;
  const std::int64_t kv_offset = head / s.group() * s.keys * s.dim;
  const std::int64_t keys =
      s.causal ? std::max<std::int64_t>(0, row % s.queries + 1 + s.keys - s.queries) : s.keys;
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.query = tessera_tensor_4d(at(in.query, in.dtype, row * s.dim), in.dtype, 1, 1, 1, s.dim);
  p.key = tessera_tensor_4d(at(in.key, in.dtype, kv_offset), in.dtype, 1, 1, keys, s.dim);
  p.value = tessera_tensor_4d(at(in.value, in.dtype, kv_offset), in.dtype, 1, 1, keys, s.dim);
  p.output = tessera_tensor_4d(nullptr, in.dtype, 1, 1, 1, s.dim);
  p.scale = 1.0f / std::sqrt(static_cast<float>(s.dim));
  return p;
}

// The place of the first element that is not finite, or -1.
std::int64_t first_nonfinite(const void* output, tessera_dtype dtype, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (!std::isfinite(oracle::load(output, dtype, i))) return i;
  return -1;
}

}  // namespace

Truth::Truth(const Shape& shape, const Inputs& inputs, std::uint64_t seed)
    : shape_(shape), dtype_(inputs.dtype), rows_(rows_to_check(shape, seed)) {
  const auto count = static_cast<std::int64_t>(rows_.size());
  exact_.resize(static_cast<std::size_t>(count * shape.dim));
  double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
  for (std::int64_t i = 0; i < count; ++i) {
    const tessera_attention p = row_problem(shape, inputs, rows_[static_cast<std::size_t>(i)]);
    const oracle::Result exact = oracle::attend(p);
    const oracle::Result plain = oracle::plain(p);
    for (std::int64_t d = 0; d < shape.dim; ++d) {
      const auto u = static_cast<std::size_t>(d);
      exact_[static_cast<std::size_t>(i * shape.dim + d)] = exact.output[u];
      worst = std::max(worst, std::abs(plain.output[u] - exact.output[u]));
    }
  }
  plain_error_ = worst;
}

Check Truth::judge(const void* output) const {
  Check c;
  c.checked_rows = static_cast<std::int64_t>(rows_.size());
  const std::int64_t bad = first_nonfinite(output, dtype_, shape_.query_rows() * shape_.dim);
  if (bad >= 0) {
    c.why = fmt::format("element {} is not finite", bad);
    return c;
  }
  double error2 = 0, rounding2 = 0, truth2 = 0;
  for (std::size_t i = 0; i < exact_.size(); ++i) {
    const std::int64_t row = rows_[i / static_cast<std::size_t>(shape_.dim)];
    const std::int64_t place = row * shape_.dim + static_cast<std::int64_t>(i) % shape_.dim;
    const double truth = exact_[i];
    const double error = oracle::load(output, dtype_, place) - truth;
    const double bound = 2 * plain_error_ + oracle::rounding_step(dtype_, truth);
    if (std::abs(error) > bound && c.why.empty())
      c.why = fmt::format("row {}, element {}: off by {:.3g}, allowed {:.3g}", row, place % shape_.dim, error,
                          bound);
    error2 += error * error;
    rounding2 += std::pow(oracle::round_to(dtype_, truth) - truth, 2);
    truth2 += truth * truth;
  }
  c.relative_rms = std::sqrt(error2 / truth2);
  c.beyond_rounding = std::sqrt(std::max(0.0, error2 - rounding2) / truth2);
  c.passed = c.why.empty();
  return c;
}

}  // namespace tessera::peers
