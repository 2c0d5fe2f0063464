// Cutting cases down; see check.hpp.
#include "cli/check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/term.hpp"

namespace tessera::cli {

double oracle_flops(const cases::Case& c) {
  return 2.0 * static_cast<double>(c.batch) * static_cast<double>(c.heads) * static_cast<double>(c.queries) *
         static_cast<double>(c.keys) * static_cast<double>(c.dim + c.value_dim);
}

cases::Case reduced(const cases::Case& c, double most_flops) {
  const auto half = [](std::int64_t n) { return (n + 1) / 2; };
  const std::int64_t group = c.kv_heads > 0 ? c.heads / c.kv_heads : 1;
  cases::Case small = c;
  while (oracle_flops(small) > most_flops) {
    if (small.batch > 2) {
      small.batch = half(small.batch);
    } else if (small.kv_heads > 1) {
      small.kv_heads = half(small.kv_heads);
      small.heads = small.kv_heads * group;
    } else if (std::max(small.queries, small.keys) > 64) {
      // Both, so that the shape and where a causal band lies in it stay alike.
      if (small.queries > 64) small.queries = half(small.queries);
      if (small.keys > 64) small.keys = half(small.keys);
      // As many documents as before.
      const bool documents = small.mask_content == cases::MaskContent::documents ||
                             small.mask_content == cases::MaskContent::blocks;
      if (documents) small.mask_block = half(small.mask_block);
    } else if (small.batch > 1) {
      small.batch = 1;
    } else {
      break;
    }
  }
  if (!(small == c)) small.name = cases::words(small);  // the group stays, and with it the gates of the group
  return small;
}

std::string rows_judged(const cases::Verdict& verdict) {
  if (verdict.rows_judged == verdict.rows) return "every row";
  return fmt::format("{} of {} rows", grouped(static_cast<double>(verdict.rows_judged)),
                     grouped(static_cast<double>(verdict.rows)));
}

}  // namespace tessera::cli
