#include "cpu/threads.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <thread>

namespace tessera::cpu {
namespace {

constexpr std::string_view kOurs = "TESSERA_NUM_THREADS";
constexpr std::string_view kOpenMp = "OMP_NUM_THREADS";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The number of 0 or more that is all of `text`, or -1; what is too large for an int counts as the largest.
int number_in(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return -1;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? number : std::numeric_limits<int>::max();
}

// CPUs this process may run on.
int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

EnvironmentThreads read_environment(const char* tessera_num_threads, const char* omp_num_threads) {
  const std::string_view ours = tessera_num_threads == nullptr ? "" : tessera_num_threads;
  if (!ours.empty()) {
    const int count = number_in(trimmed(ours));
    if (count >= 0 && count <= TESSERA_MAX_THREADS) return {count, kOurs, ""};
    return {0, kOurs,
            fmt::format("{} is \"{}\" in the environment; 0 (all cores) to {} is accepted", kOurs, ours,
                        TESSERA_MAX_THREADS)};
  }
  const std::string_view omp = omp_num_threads == nullptr ? "" : omp_num_threads;
  const int count = number_in(trimmed(omp.substr(0, omp.find(','))));
  return count < 1 ? EnvironmentThreads{}
                   : EnvironmentThreads{std::min(count, TESSERA_MAX_THREADS), kOpenMp, ""};
}

const EnvironmentThreads& environment_threads() {
  static const EnvironmentThreads threads =
      read_environment(std::getenv(kOurs.data()), std::getenv(kOpenMp.data()));
  return threads;
}

int thread_count(int wanted) {
  if (wanted > 0) return wanted;
  if (environment_threads().count > 0) return environment_threads().count;
  return std::min(available_cpus(), TESSERA_MAX_THREADS);
}

}  // namespace tessera::cpu
