// What this CPU can do, measured: multiply-adds per second and bytes read per second.
#pragma once

#include <cstddef>

#include "cli/floor.hpp"

namespace tessera::cli {

// 0 means all cores.
int resolve_threads(int threads);

double measure_flops_per_s(int threads, double seconds = 0.15);

// Every thread reads its share of one buffer again and again, as `streams` parts side by side.
// The best of several windows counts: a limit is not lowered by a neighbour's noise.
double measure_bytes_per_s(std::size_t buffer_bytes, int threads, int streams, double seconds = 0.15);

// Large enough that no cache of this machine holds it.
std::size_t dram_buffer_bytes();

// The rates that bound one case: arithmetic, and reading as many bytes as it has.
CpuRates measure_for(const cases::Case& c, int threads);

}  // namespace tessera::cli
