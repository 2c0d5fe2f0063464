// What `tessera bench` prints and writes: tables, the regression gate, the leaderboard.
#pragma once

#include <string>
#include <vector>

#include "cli/history.hpp"

namespace tessera::cli {

// The machine, the times, and what each was verified against.
void print_rows(const std::vector<BenchRow>& rows, const Json& machine);

// A table a case: each kernel with its gain over the rung below. Adds step_gain and step_over to the report.
void print_ladder(const std::vector<BenchRow>& rows, const Json& machine, bool quiet, Json& report);

struct SavedResults {
  std::string path;
  Json content;
  double tolerance_percent = 5;
};
// True if nothing regressed.
bool gate(const std::vector<BenchRow>& rows, const SavedResults& saved, bool quiet, Json& report);

// Enters the winners and writes the board if it changed.
void lead(const std::vector<BenchRow>& rows, const std::string& path, Json board, bool quiet, Json& report);

}  // namespace tessera::cli
