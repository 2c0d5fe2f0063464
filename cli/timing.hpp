// Timing on the host: samples of single calls and what they say.
#pragma once

#include <functional>
#include <vector>

namespace tessera::cli {

struct Stats {
  std::size_t samples = 0;
  double p50_us = 0, p90_us = 0, p99_us = 0, mean_us = 0, std_us = 0, min_us = 0;
};

Stats statistics(std::vector<double> samples_us);

// Times the contenders against each other: after a warm-up, rounds in which each runs once, so that a
// change in clock or load hits all of them alike. Goes on until every one has `min_time_s` of samples
// and at least five of them. `between` is called after every round (a progress bar).
std::vector<Stats> time_interleaved(const std::vector<std::function<void()>>& contenders, double min_time_s,
                                    const std::function<void()>& between = {});

}  // namespace tessera::cli
