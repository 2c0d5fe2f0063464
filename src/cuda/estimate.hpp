// What the kernels' cost models share. A GPU works in rounds: every SM takes a tile of query rows, and a
// round lasts as long as a tile does.
//
//   time = rounds * rows of a tile / rate * time of a row
//
// where a row's time is what sm90's plain variant takes for it, on one SM, and rates are relative to that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/plan.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda {

inline std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

inline double rounds(std::int64_t tiles, int sms) { return static_cast<double>(divide_up(tiles, sms)); }

// One query row over all keys, by sm90's plain variant on one SM of an H200, about.
inline double row_us(const core::Problem& p) {
  constexpr double kRate = 5e6;  // FLOP a microsecond
  return 2 * static_cast<double>(std::max<std::int64_t>(p.keys, 1)) *
         static_cast<double>(p.dim + p.value_dim) / kRate;
}

// Of the keys that the longest row tile of a head visits, what one visits on average: as many as a row sees
// on average, and half a tile more, because a tile visits the keys that its last row sees.
inline double share_of(const core::Problem& p, std::int64_t rows) {
  if (!later_rows_see_more(p) || p.queries == 0) return 1.0;
  const std::int64_t longest = std::min(p.position_offset(p.keys) + p.queries + p.visibility.right, p.keys);
  if (longest <= 0) return 1.0;
  const double average = core::visible_pairs(p) / static_cast<double>(p.queries);
  const double ahead = static_cast<double>(std::min(rows, p.queries) - 1) / 2;
  return std::min((average + ahead) / static_cast<double>(longest), 1.0);
}

// Keys that a row tile visits, on average.
inline double visited_keys(const core::Problem& p, std::int64_t rows) {
  if (p.queries == 0) return 0;
  const double average = core::visible_pairs(p) / static_cast<double>(p.queries);
  return std::min(average + static_cast<double>(rows), static_cast<double>(p.keys));
}

}  // namespace tessera::cuda
