// FLOPs and bytes of a problem in closed form, so that planning stays cheap at any length.
#include <algorithm>

#include "core/plan.hpp"

namespace tessera::core {
namespace {

// Sum over i = 0 ... n-1 of clamp(i + shift, 0, limit).
double clamped_sum(double n, double shift, double limit) {
  const double ramp_begin = std::clamp(-shift, 0.0, n);              // below: every term is 0
  const double ramp_end = std::clamp(limit - shift, ramp_begin, n);  // from here on: every term is limit
  const double ramp_terms = ramp_end - ramp_begin;
  const double ramp = ramp_terms * (shift + (ramp_begin + ramp_end - 1) / 2);
  return ramp + (n - ramp_end) * limit;
}

}  // namespace

double visible_pairs(const Problem& p) {
  const auto queries = static_cast<double>(p.queries);
  const auto keys = static_cast<double>(p.keys);
  if (!p.visibility.has_band) return queries * keys;
  const auto offset = static_cast<double>(p.position_offset(p.keys));
  return clamped_sum(queries, offset + static_cast<double>(p.visibility.right) + 1, keys) -
         clamped_sum(queries, offset - static_cast<double>(p.visibility.left), keys);
}

Cost cost(const Problem& p) {
  const auto size = static_cast<double>(dtype_size(p.dtype));
  const auto batch = static_cast<double>(p.batch);
  const auto heads = static_cast<double>(p.heads);
  const auto queries = static_cast<double>(p.queries);
  const auto dims = static_cast<double>(p.dim + p.value_dim);

  double reachable_keys = static_cast<double>(p.queries == 0 ? 0 : p.keys);
  if (p.visibility.has_band && p.queries > 0) {
    const std::int64_t offset = p.position_offset(p.keys);
    const std::int64_t begin = std::max<std::int64_t>(offset - p.visibility.left, 0);
    const std::int64_t end = std::min(offset + p.queries + p.visibility.right, p.keys);
    reachable_keys = static_cast<double>(std::max<std::int64_t>(end - begin, 0));
  }
  double mask_bytes = 0;
  if (p.visibility.mask.kind != MaskKind::none) {
    const std::int64_t full[4] = {p.batch, p.heads, p.queries, p.keys};
    mask_bytes = static_cast<double>(dtype_size(p.visibility.mask.dtype));
    for (std::size_t d = 0; d < 4; ++d)
      mask_bytes *= p.visibility.mask.strides[d] == 0 ? 1.0 : static_cast<double>(full[d]);
  }
  const double kv_bytes = batch * static_cast<double>(p.kv_heads) * reachable_keys * dims * size;
  const double row_bytes = batch * heads * queries * dims * size;
  const double lse_bytes = p.output.lse != nullptr ? batch * heads * queries * 4 : 0;
  return {2 * batch * heads * visible_pairs(p) * dims, row_bytes + kv_bytes + lse_bytes + mask_bytes};
}

}  // namespace tessera::core
