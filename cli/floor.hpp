// The least time a case can take on a machine, and which wall says so.
#pragma once

#include <string>
#include <vector>

#include "cases/case.hpp"
#include "cli/machines.hpp"

namespace tessera::cli {

struct Wall {
  std::string name;        // "arithmetic", "memory", "exponentials"
  double us = 0;           // the case takes at least this long
  std::string arithmetic;  // how that came about, for people
  bool applies = true;     // false: shown, but no wall for repeated calls (data already in a cache)
};

struct Floor {
  std::vector<Wall> walls;
  double us = 0;      // the highest wall that applies
  std::string which;  // its name
};

Floor gpu_floor(const cases::Case& c, const Gpu& gpu);

// What one CPU reaches, in this run.
struct CpuRates {
  double flops_per_s = 0;
  double bytes_per_s = 0;  // reading a buffer as large as the case's tensors
  int threads = 1;
};
Floor cpu_floor(const cases::Case& c, const CpuRates& rates);

// One exponential for every visible (query, key) pair.
double exponentials(const cases::Case& c);

}  // namespace tessera::cli
