// How many threads a call gets: as many as it asks for, else what the environment says, else all CPUs.
#pragma once

#include <tessera/tessera.h>

#include <string>
#include <string_view>

namespace tessera::cpu {

// What the environment says about calls that leave the number open.
struct EnvironmentThreads {
  int count = 0;              // 0: nothing, so all CPUs
  std::string_view variable;  // where count comes from
  std::string error;          // a sentence if TESSERA_NUM_THREADS is no number of threads
};

// TESSERA_NUM_THREADS, which is ours: 0 (all CPUs) to TESSERA_MAX_THREADS, anything else is an error. Where
// it is not set, OMP_NUM_THREADS, which is not: the first number of its list, cut to TESSERA_MAX_THREADS, and
// ignored if it is none. Null or empty means not set.
EnvironmentThreads read_environment(const char* tessera_num_threads, const char* omp_num_threads);

// The same of this process, as it was when it was first asked for.
const EnvironmentThreads& environment_threads();

// Of a call that asks for `wanted` threads (0: leaves it open).
int thread_count(int wanted);

}  // namespace tessera::cpu
