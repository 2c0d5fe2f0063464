#include "check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "oracle/oracle.hpp"

namespace tessera::peers {
namespace {

constexpr double kMultiplyAddBudget = 1.5e8;
constexpr std::int64_t kLeastRows = 32;

std::vector<oracle::Row> rows_to_check(const Case& c, const tessera_attention& problem, std::uint64_t seed) {
  const std::vector<oracle::Row> all = oracle::every_row(problem);
  const auto affordable =
      static_cast<std::int64_t>(kMultiplyAddBudget / static_cast<double>(2 * c.keys * c.dim));
  const auto wanted = static_cast<std::size_t>(std::max(affordable, kLeastRows));
  if (wanted >= all.size()) return all;
  std::vector<oracle::Row> rows = {all.front()};  // the first and the last row are always among them
  std::mt19937_64 generator(seed);
  std::sample(all.begin() + 1, all.end() - 1, std::back_inserter(rows), wanted - 2, generator);
  rows.push_back(all.back());
  return rows;
}

// The place of the first element that is not finite, or -1.
std::int64_t first_nonfinite(const void* output, tessera_dtype dtype, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (!std::isfinite(oracle::load(output, dtype, i))) return i;
  return -1;
}

cases::Expected expect(const Case& c, const Inputs& inputs, std::uint64_t seed) {
  const tessera_attention problem = problem_of(c, inputs, nullptr);
  return cases::expect(problem, rows_to_check(c, problem, seed));
}

}  // namespace

Truth::Truth(const Case& shape, const Inputs& inputs, std::uint64_t seed)
    : shape_(shape), expected_(expect(shape, inputs, seed)) {}

Check Truth::judge(const void* output) const {
  const Case& c = shape_;
  Check check;
  check.checked_rows = static_cast<std::int64_t>(expected_.rows.size());
  const std::int64_t bad = first_nonfinite(output, c.dtype, c.batch * c.heads * c.queries * c.dim);
  if (bad >= 0) {
    check.why = fmt::format("element {} is not finite", bad);
    return check;
  }
  double error2 = 0, rounding2 = 0, truth2 = 0;
  std::size_t i = 0;
  for (const oracle::Row& row : expected_.rows) {
    const std::int64_t first = ((row.batch * c.heads + row.head) * c.queries + row.query) * c.dim;
    for (std::int64_t d = 0; d < c.dim; ++d, ++i) {
      const double truth = expected_.truth.output[i], bound = expected_.output_bound[i];
      const double error = oracle::load(output, c.dtype, first + d) - truth;
      if (std::abs(error) > bound && check.why.empty())
        check.why = fmt::format("output[{},{},{},{}] is off by {:.3g}, allowed {:.3g}", row.batch, row.head,
                                row.query, d, error, bound);
      error2 += error * error;
      rounding2 += std::pow(oracle::round_to(c.dtype, truth) - truth, 2);
      truth2 += truth * truth;
    }
  }
  check.relative_rms = std::sqrt(error2 / truth2);
  check.beyond_rounding = std::sqrt(std::max(0.0, error2 - rounding2) / truth2);
  check.passed = check.why.empty();
  return check;
}

}  // namespace tessera::peers
