// One computed problem against the float64 oracle, under the bound of docs/correctness.md: at most
// twice the worst error of a plain same-precision implementation on the same inputs, plus one rounding
// step of the output's dtype.
#pragma once

#include <tessera/tessera.h>

#include <string>

namespace tessera::cli {

struct AttendCheck {
  bool passed = false;
  std::string why;         // empty if passed; else the first element that failed, with its values
  double worst_error = 0;  // max |output - oracle| over finite elements
  double plain_error = 0;  // the same of the plain implementation
  double worst_ratio = 0;  // max of error / bound over output and lse; > 1 fails
  double lse_error = 0;    // as worst_error, of lse
};

// The problem was computed: output and lse hold the results. Takes time in proportion to
// queries x keys x heads x batch; shows progress on a terminal. `threads` 0 = all cores.
AttendCheck check_against_oracle(const tessera_attention& problem, int threads);

// The part of a problem that belongs to one batch entry and one query head, as a problem of its own.
tessera_attention slice(const tessera_attention& problem, std::int64_t batch_entry, std::int64_t head);

}  // namespace tessera::cli
