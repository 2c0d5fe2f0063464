// The float64 judge in front of the stopwatch: what is wrong is not timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "problem.hpp"

namespace tessera::peers {

struct Check {
  bool passed = false;
  std::string why;             // empty if passed
  double relative_rms = 0;     // rms(output - truth) / rms(truth) over the checked rows
  double beyond_rounding = 0;  // the part of it that rounding the exact result to the dtype does not explain
  std::int64_t checked_rows = 0;
};

// The exact result for rows of a shape: all of them where that is affordable, else a random sample.
class Truth {
 public:
  Truth(const Shape& shape, const Inputs& inputs, std::uint64_t seed);
  // output is contiguous [batch, heads, queries, dim] of the inputs' dtype. Every element must be
  // finite; on the checked rows each may be off by twice the worst error of a plain same-precision
  // implementation plus one rounding step of the dtype.
  Check judge(const void* output) const;

 private:
  Shape shape_;
  tessera_dtype dtype_;
  std::vector<std::int64_t> rows_;  // indices into batch x heads x queries
  std::vector<double> exact_;       // [rows, dim]
  double plain_error_ = 0;
};

}  // namespace tessera::peers
