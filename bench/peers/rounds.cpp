#include "rounds.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace tessera::peers {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Idle workers of a thread pool spin for a while before they sleep (OpenBLAS for 2^26 cycles, libgomp
// for some milliseconds). Without this pause they would spin on the cores of whoever comes next.
void settle(const Effort& effort) {
  std::this_thread::sleep_for(std::chrono::duration<double>(effort.settle_s));
}

std::int64_t preemptions_so_far() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

double call_s(const Way& way) {
  const auto start = Clock::now();
  way.run();
  return seconds_since(start);
}

// One slot: wake the contender's threads and caches, then time calls; returns the median call.
double run_slot(const Way& way, const Effort& effort, Timing* timing) {
  settle(effort);
  way.enter();
  const auto warm_start = Clock::now();
  do way.run();
  while (seconds_since(warm_start) < effort.warm_s);
  const std::int64_t before = preemptions_so_far();
  std::vector<double> slot;
  double total = 0;
  while (total < effort.slot_s) {
    slot.push_back(call_s(way));
    total += slot.back();
  }
  timing->preemptions += preemptions_so_far() - before;
  timing->calls_s.insert(timing->calls_s.end(), slot.begin(), slot.end());
  return median(slot);
}

}  // namespace

double Timing::percentile(double fraction) const {
  const double at = fraction * static_cast<double>(calls_s.size() - 1);
  return calls_s[static_cast<std::size_t>(std::lround(at))];
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

double median_ratio(const Timing& a, const Timing& b) {
  std::vector<double> ratios(a.rounds_s.size());
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = a.rounds_s[i] / b.rounds_s[i];
  return median(ratios);
}

std::vector<Timing> time_in_rounds(const std::vector<const Way*>& ways, const Effort& effort) {
  const std::size_t n = ways.size();
  std::vector<Timing> timings(n);
  for (Timing& t : timings) t.rounds_s.resize(static_cast<std::size_t>(effort.rounds));
  for (std::size_t round = 0; round < static_cast<std::size_t>(effort.rounds); ++round) {
    // The order turns by one every round, so that nobody always follows the same neighbour.
    for (std::size_t turn = 0; turn < n; ++turn) {
      const std::size_t i = (turn + round) % n;
      timings[i].rounds_s[round] = run_slot(*ways[i], effort, &timings[i]);
    }
  }
  for (Timing& t : timings) std::sort(t.calls_s.begin(), t.calls_s.end());
  return timings;
}

double quick_time_s(const Way& way) {
  settle(Effort{});
  way.enter();
  way.run();
  double best = call_s(way);
  double total = best;
  for (int i = 0; i < 10 && total < 0.2; ++i) {
    const double t = call_s(way);
    total += t;
    best = std::min(best, t);
  }
  return best;
}

}  // namespace tessera::peers
