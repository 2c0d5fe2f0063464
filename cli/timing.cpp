// Host timing; see timing.hpp.
#include "cli/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kFewestSamples = 5;
constexpr std::size_t kMostSamples = 200000;

double time_once_us(const std::function<void()>& call) {
  const auto begin = Clock::now();
  call();
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// Of sorted samples, between neighbours where the rank falls between them.
double percentile(const std::vector<double>& sorted, double part) {
  const double rank = part * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(rank);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (rank - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

Stats statistics(std::vector<double> samples_us) {
  Stats stats;
  stats.samples = samples_us.size();
  if (samples_us.empty()) return stats;
  std::sort(samples_us.begin(), samples_us.end());
  const auto count = static_cast<double>(samples_us.size());
  double sum = 0, squares = 0;
  for (const double sample : samples_us) sum += sample;
  stats.mean_us = sum / count;
  for (const double sample : samples_us) squares += (sample - stats.mean_us) * (sample - stats.mean_us);
  stats.std_us = count > 1 ? std::sqrt(squares / (count - 1)) : 0;
  stats.min_us = samples_us.front();
  stats.p50_us = percentile(samples_us, 0.50);
  stats.p90_us = percentile(samples_us, 0.90);
  stats.p99_us = percentile(samples_us, 0.99);
  return stats;
}

std::vector<Stats> time_interleaved(const std::vector<std::function<void()>>& contenders, double min_time_s,
                                    const std::function<void()>& between) {
  // A tenth of the time to warm up: pages, caches, threads and the clock.
  for (const auto& call : contenders) {
    const auto begin = Clock::now();
    do call();
    while (std::chrono::duration<double>(Clock::now() - begin).count() < min_time_s / 10);
  }
  std::vector<std::vector<double>> samples(contenders.size());
  std::vector<double> spent_us(contenders.size(), 0);
  const auto enough = [&] {
    const double least_us = *std::min_element(spent_us.begin(), spent_us.end());
    const std::size_t count = samples.front().size();
    return count >= kMostSamples || (count >= kFewestSamples && least_us >= min_time_s * 1e6);
  };
  while (!contenders.empty() && !enough()) {
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      samples[c].push_back(time_once_us(contenders[c]));
      spent_us[c] += samples[c].back();
    }
    if (between) between();
  }
  std::vector<Stats> stats;
  stats.reserve(samples.size());
  for (auto& each : samples) stats.push_back(statistics(std::move(each)));
  return stats;
}

}  // namespace tessera::cli
