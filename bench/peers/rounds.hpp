// Interleaved timing. In every round each contender gets one slot; what is compared is the ratio of two
// slots of the same round, so that a machine that slows down slows both.
#pragma once

#include <vector>

#include "problem.hpp"

namespace tessera::peers {

struct Effort {
  int rounds = 11;
  double slot_s = 0.03;   // timed calls of one slot, at least this long together
  double warm_s = 0.003;  // calls before them that are not timed
  double settle_s = 0.2;  // pause before a slot; see settle() in rounds.cpp
};

struct Timing {
  std::vector<double> calls_s;   // every timed call, sorted
  std::vector<double> rounds_s;  // the median call of each round
  std::int64_t preemptions = 0;  // times another program took a core away during the timed calls

  double p50_s() const { return percentile(0.5); }
  double p90_s() const { return percentile(0.9); }
  double percentile(double fraction) const;
};

double median(std::vector<double> values);
// The median over rounds of a.rounds_s[i] / b.rounds_s[i].
double median_ratio(const Timing& a, const Timing& b);

std::vector<Timing> time_in_rounds(const std::vector<const Way*>& ways, const Effort& effort);

// The least of a few calls, to choose between ways.
double quick_time_s(const Way& way);

}  // namespace tessera::peers
