// Correctness at an affordable price, for cases whose full oracle would take minutes.
//
// A case that is cheap enough goes through cases::judge() whole. A large one is checked twice: judge() on a
// smaller version of it (same options, dims and dtype), and, on the full-size tensors, a sample of output
// rows against the float64 oracle: one row is a problem of its own with one query.
#pragma once

#include <string>

#include "cases/gates.hpp"
#include "cases/instance.hpp"

namespace tessera::cli {

// Multiply-adds count two. The oracle and its yardstick together do roughly half a GFLOP a second.
inline constexpr double kJudgeFlops = 2.5e8;

// 2 * batch * heads * queries * keys * (dim + value_dim), visible or not: what the oracle looks at.
double oracle_flops(const cases::Case& c);

// The same case with batch, heads and lengths cut down until oracle_flops() <= most_flops.
cases::Case reduced(const cases::Case& c, double most_flops);

struct RowCheck {
  bool passed = false;
  std::string why;
  int rows = 0;
  double worst_error = 0;
  double worst_ratio = 0;  // error / bound, the bound being judge()'s: 2 × plain + one rounding step
};

// Runs the kernel on the instance (inputs: normal) and compares sampled rows.
RowCheck check_rows(cases::Instance& instance, const tessera_device& device, std::uint64_t seed);

struct Check {
  bool passed = false;
  std::string why;
  std::string what;  // what was compared, for people: "every row", or the smaller case and the sampled rows
  double worst_error = 0;
  double worst_ratio = 0;
  std::string reproduce;
};

// The gate before timing: one kernel (device.kernel) on one case.
Check check_before_timing(const cases::Case& c, cases::Instance& instance, const tessera_device& device,
                          std::uint64_t seed);

}  // namespace tessera::cli
