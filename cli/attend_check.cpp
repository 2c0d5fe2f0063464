// The truth and the bounds come from the gates; what is done here is to choose rows, to ask for them in
// portions, so that a long check shows how far it is, and to compare.
#include "cli/attend_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "cases/gates.hpp"
#include "cli/common.hpp"
#include "cli/term.hpp"

namespace tessera::cli {
namespace {

// The oracle and its yardstick do some 2e8 multiply-adds a second and core.
constexpr double kMostMultiplyAdds = 2e9;
constexpr double kPortionMultiplyAdds = 1e8;

// All rows, or `wanted` of them: evenly spread, the first and the last among them.
std::vector<oracle::Row> choose_rows(const tessera_attention& p, std::int64_t wanted) {
  std::vector<oracle::Row> rows = oracle::every_row(p);
  const auto total = static_cast<std::int64_t>(rows.size());
  if (wanted >= total) return rows;
  std::vector<oracle::Row> chosen;
  const double step = static_cast<double>(total - 1) / static_cast<double>(wanted - 1);
  for (std::int64_t i = 0; i < wanted; ++i) {
    const auto at = static_cast<std::int64_t>(std::llround(step * static_cast<double>(i)));
    chosen.push_back(rows[static_cast<std::size_t>(std::min(at, total - 1))]);
  }
  return chosen;
}

struct Compared {
  double got, truth, bound;
};

// Counts one element into the check. NaN must be NaN and inf be inf; a finite value obeys the bound.
void count(const Compared& e, tessera_dtype dtype, std::string_view tensor, const oracle::Row& row,
           double* worst_error, AttendCheck* check) {
  const double stored = oracle::round_to(dtype, e.truth);  // a finite truth may be inf in f16
  double ratio = 0;
  if (std::isfinite(stored) && std::isfinite(e.got)) {
    const double error = std::fabs(e.got - e.truth);
    ratio = error / e.bound;
    *worst_error = std::max(*worst_error, error);
  } else if (!(e.got == stored || (std::isnan(e.got) && std::isnan(stored)))) {
    ratio = std::numeric_limits<double>::infinity();
  }
  check->worst_ratio = std::max(check->worst_ratio, ratio);
  if (ratio > 1 && check->why.empty()) {
    check->why = fmt::format("{}[{},{},{}] holds {:.9g} where the oracle says {:.9g}; the bound is {:.3g}",
                             tensor, row.batch, row.head, row.query, e.got, e.truth, e.bound);
  }
}

// Each portion's bounds hold its own plain error; the problem's is the largest of them.
void compare(const tessera_attention& p, const cases::Expected& e, const cases::Bounds& bounds,
             double plain_output_error, double plain_lse_error, AttendCheck* check) {
  const std::int64_t columns = p.output.shape[3];
  const double more_output = 2 * (plain_output_error - bounds.plain_output_error);
  const double more_lse = 2 * (plain_lse_error - bounds.plain_lse_error);
  for (std::size_t r = 0; r < e.rows.size(); ++r) {
    const oracle::Row& row = e.rows[r];
    const std::int64_t begin = oracle::row_offset(p, p.output, row);
    for (std::int64_t d = 0; d < columns; ++d) {
      const std::size_t at = r * static_cast<std::size_t>(columns) + static_cast<std::size_t>(d);
      const double got = oracle::load(p.output.data, p.output.dtype, begin + d);
      count({got, e.truth.output[at], bounds.output_bound[at] + more_output}, p.output.dtype, "output", row,
            &check->worst_error, check);
    }
    if (p.lse.data == nullptr) continue;
    const double got = oracle::load(p.lse.data, TESSERA_F32, oracle::row_offset(p, p.lse, row));
    count({got, e.truth.lse[r], bounds.lse_bound[r] + more_lse}, TESSERA_F32, "lse", row, &check->lse_error,
          check);
  }
}

// Key or value beside the oracle's copy of it, both as files are: contiguous. NaN may be any NaN.
std::string compare_stored(std::string_view name, const tessera_tensor& got, const tessera_tensor& want) {
  if (got.data == want.data) return "";
  const std::int64_t size = static_cast<std::int64_t>(tessera_dtype_size(got.dtype));
  const std::int64_t count = got.shape[0] * got.shape[1] * got.shape[2] * got.shape[3];
  for (std::int64_t e = 0; e < count; ++e) {
    const char *here = static_cast<const char*>(got.data) + e * size,
               *there = static_cast<const char*>(want.data) + e * size;
    if (std::memcmp(here, there, static_cast<std::size_t>(size)) == 0) continue;
    const double a = oracle::load(here, got.dtype, 0), b = oracle::load(there, got.dtype, 0);
    if (!std::isnan(a) || !std::isnan(b))
      return fmt::format("element {} of {} holds {:.9g} where the oracle stores {:.9g}", e, name, a, b);
  }
  return "";
}

}  // namespace

AttendCheck check_against_oracle(const tessera_attention& problem, bool every_row,
                                 const tessera_device& device, const tessera_attention* rest) {
  AttendCheck check;
  if (rest != nullptr) check.why = compare_stored("key", problem.key, rest->key);
  if (rest != nullptr && check.why.empty()) check.why = compare_stored("value", problem.value, rest->value);
  if (rest != nullptr && check.why.empty() && problem.key_tail.rank > 0)
    check.why = compare_stored("key_tail", problem.key_tail, rest->key_tail);
  const oracle::Arithmetic arithmetic = cases::arithmetic_of(problem, device);
  check.rows = problem.query.shape[0] * problem.query.shape[1] * problem.query.shape[2];
  const std::int64_t pages = problem.page_table.rank == 0 ? 1 : problem.page_table.shape[1];
  const double row_cost = static_cast<double>(problem.key.shape[2] * pages + 1) *
                          static_cast<double>(problem.query.shape[3] + problem.value.shape[3]);
  const auto affordable = [&](double multiply_adds) {
    return std::max<std::int64_t>(16, static_cast<std::int64_t>(multiply_adds / row_cost));
  };
  const std::vector<oracle::Row> rows =
      choose_rows(problem, every_row ? check.rows : affordable(kMostMultiplyAdds));
  check.rows_judged = static_cast<std::int64_t>(rows.size());

  const auto portion = static_cast<std::size_t>(affordable(kPortionMultiplyAdds));
  std::vector<cases::Expected> expected;
  double plain_lse_error = 0;
  {
    Progress progress("checking against the float64 oracle", (rows.size() + portion - 1) / portion);
    for (std::size_t begin = 0; begin < rows.size(); begin += portion) {
      const std::size_t end = std::min(rows.size(), begin + portion);
      expected.push_back(
          cases::expect(rest != nullptr ? *rest : problem, {rows.data() + begin, rows.data() + end}));
      const cases::Bounds& bounds = expected.back().bounds(arithmetic);
      check.plain_error = std::max(check.plain_error, bounds.plain_output_error);
      plain_lse_error = std::max(plain_lse_error, bounds.plain_lse_error);
      progress.tick(fmt::format("{} of {} rows", end, rows.size()));
    }
  }
  for (const cases::Expected& e : expected)
    compare(problem, e, e.bounds(arithmetic), check.plain_error, plain_lse_error, &check);
  check.passed = check.why.empty();
  return check;
}

}  // namespace tessera::cli
