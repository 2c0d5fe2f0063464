// What `tessera profile` asks Nsight Compute for, how it reads the answer, and which limits a kernel is held
// to. Pure functions: nothing here runs a program.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel.hpp"

namespace tessera::cli {

// Every counter that a gate needs, by the names of Nsight Compute 2025.
const std::vector<std::string>& profile_metrics();

// One profiled launch. A counter that this GPU does not have, or that reads "n/a", is left out.
struct Profile {
  std::string kernel;  // as Nsight Compute writes it
  std::map<std::string, double> metrics;

  [[nodiscard]] std::optional<double> at(const std::string& metric) const;
};

// The launches in the output of `ncu --csv --page raw --print-units base`: one line of column names, one of
// units, one per launch; what ncu and the program say around them is skipped.
std::vector<Profile> parse_profile(std::string_view output);

// Counters that ncu complained about, so that it can be run again without them.
std::vector<std::string> refused_metrics(std::string_view output);

struct Gate {
  enum class Outcome { passed, failed, unread, no_limit };
  std::string what;
  std::optional<double> value;
  std::string text;   // the value for people
  std::string limit;  // "< 2", or empty where there is none
  Outcome outcome = Outcome::no_limit;
};

// The kernel's gates: those of its rung (docs/ladder.md), its budget, and for everything else the value
// alone. Kernels outside the ladder are the production kernels, which hold the gates of every rung.
std::vector<Gate> judge_profile(const Profile& profile, const core::Kernel& kernel);

}  // namespace tessera::cli
