// The correctness gates: a kernel is judged here and nowhere else. See docs/correctness.md.
#pragma once

#include <string>

#include "cases/instance.hpp"

namespace tessera::cases {

struct Verdict {
  bool passed = false;
  std::string why;         // empty if passed; else the first gate that failed, with place and values
  double worst_error = 0;  // max |output - oracle| over finite elements
  double worst_ratio = 0;  // max of error / bound over output and lse; > 1 fails
  std::string reproduce;   // a `tessera verify ...` command line for this very check
};

// Runs one kernel (by name) on the case: oracle, bound, NaN and inf positions first, guard bands,
// two runs that must agree bit for bit. `threads` 0 = all cores.
Verdict judge(const Case& c, Input input, std::uint64_t seed, const tessera_device& device);

}  // namespace tessera::cases
