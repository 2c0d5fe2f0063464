// One computed problem against the float64 oracle, under the bound every kernel is held to
// (docs/correctness.md).
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <string>

namespace tessera::cli {

struct AttendCheck {
  bool passed = false;
  std::string why;         // empty if passed; else the first element that failed, with its values
  double worst_error = 0;  // max |output - oracle| over finite elements
  double lse_error = 0;    // the same of lse
  double plain_error = 0;  // what a plain implementation of the same precision is off by, at most
  double worst_ratio = 0;  // max of error / bound over output and lse; > 1 fails
  std::int64_t rows = 0, rows_judged = 0;
};

// The problem was computed on the device: output and lse hold the results. Beyond some seconds of the
// oracle's time rows spread over the whole problem are judged in place of all, unless every_row. Shows
// progress. `rest`: of a call that stores new rows or turns its query, what was left to compute by the
// oracle, from before the call (oracle::Rest); key and value must hold the same, bit for bit.
AttendCheck check_against_oracle(const tessera_attention& problem, bool every_row,
                                 const tessera_device& device = TESSERA_DEVICE_INIT,
                                 const tessera_attention* rest = nullptr);

}  // namespace tessera::cli
