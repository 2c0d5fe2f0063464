// The float64 judge in front of the stopwatch: what is wrong is not timed.
#pragma once

#include <cstdint>
#include <string>

#include "cases/gates.hpp"
#include "problem.hpp"

namespace tessera::peers {

struct Check {
  bool passed = false;
  std::string why;             // empty if passed
  double relative_rms = 0;     // rms(output - truth) / rms(truth) over the checked rows
  double beyond_rounding = 0;  // the part of it that rounding the exact result to the dtype does not explain
  std::int64_t checked_rows = 0;
};

// The exact result for rows of a case, all of them where that is affordable, else a random sample; and the
// bound that every kernel is held to (docs/correctness.md).
class Truth {
 public:
  Truth(const Case& shape, const Inputs& inputs, std::uint64_t seed);
  // output is contiguous [batch, heads, queries, dim]. Every element must be finite, those of the checked
  // rows within the bound.
  Check judge(const void* output) const;

 private:
  Case shape_;
  cases::Expected expected_;
};

}  // namespace tessera::peers
