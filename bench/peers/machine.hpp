// What this machine can do at all: its matrix-multiply rate, its FMA rate, its read bandwidth. Each is
// also a contender-like Way, so that it can take part in the rounds it is compared with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "problem.hpp"
#include "rounds.hpp"

namespace tessera::peers {

struct Limit {
  std::string name;  // "SGEMM" or "read"
  double work = 0;   // flops or bytes of one call
  Way way;
};

// A large square SGEMM of OpenBLAS, or of oneDNN where that is the only one; nothing without either.
std::optional<Limit> sgemm_limit(int threads);
// Each thread reads its own part of a buffer far larger than the caches, in 1 or 4 streams.
Limit read_limit(int threads, int streams, Pages pages);

struct Rates {
  int threads = 1;
  double sgemm_gflops = 0;  // 0: no library for it
  double fma_gflops = 0;
  double read_1_stream_ordinary_gbs = 0;
  double read_1_stream_huge_gbs = 0;
  double read_4_streams_huge_gbs = 0;
};
Rates measure_rates(int threads, const Effort& effort);

struct Host {
  std::string cpu;   // "AMD EPYC"
  std::string slug;  // the same as a folder name
  std::string compiler;
  std::string instruction_set;
  int cores = 1;
  double load_average = 0;  // over the last minute
};
Host describe_host();

}  // namespace tessera::peers
