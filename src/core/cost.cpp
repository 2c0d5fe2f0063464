// FLOPs and bytes of a problem in closed form, so that planning stays cheap at any length.
#include <algorithm>
#include <cmath>

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

// Of a batch whose entries differ in length memory alone knows the lengths: rows and keys count as if shared
// out evenly, a page table as full.
struct AverageEntry {
  explicit AverageEntry(const Problem& p) {
    const auto entries = static_cast<double>(std::max<std::int64_t>(p.batch, 1));
    rows = static_cast<double>(p.queries) / (p.query_offsets ? entries : 1.0);
    keys = static_cast<double>(p.keys) / (p.kv.offsets ? entries : 1.0);
    offset = p.visibility.align_bottom_right ? keys - rows : 0;
  }
  double rows, keys, offset;
};

// Elements that a mask tensor has in the dimensions in which it does not broadcast.
double mask_elements(const Problem& p) {
  const MaskTensor& mask = p.visibility.mask;
  if (mask.kind == MaskKind::none) return 0;
  const std::int64_t full[4] = {p.batch, p.heads, p.queries, mask.columns};
  double elements = 1;
  for (std::size_t d = 0; d < 4; ++d) elements *= mask.strides[d] == 0 ? 1.0 : static_cast<double>(full[d]);
  return elements;
}

// Of the scales of a tensor that has so many outer coordinates, heads, rows and channels.
double scale_bytes(const Scales& scales, std::int64_t outer, std::int64_t heads, std::int64_t rows,
                   std::int64_t channels) {
  if (!scales) return 0;
  const auto times = [](std::int64_t stride, std::int64_t n) {
    return stride == 0 ? 1.0 : static_cast<double>(n);
  };
  const double blocks =
      scales.rows > 0 ? std::ceil(static_cast<double>(rows) / static_cast<double>(scales.rows)) : 1.0;
  return 4 * times(scales.outer_stride, outer) * times(scales.head_stride, heads) * blocks *
         times(scales.channel_stride, channels);
}

double scale_bytes(const Problem& p) {
  const std::int64_t outer = p.kv.pages ? p.kv.pages.count : p.batch;
  const std::int64_t rows = p.kv.pages ? p.kv.pages.rows : p.keys;
  return scale_bytes(p.scales.query, p.batch, p.heads, p.queries, 1) +
         scale_bytes(p.scales.key, outer, p.kv_heads, rows, 1) +
         scale_bytes(p.scales.value, outer, p.kv_heads, rows, p.value_dim);
}

}  // namespace

double visible_pairs(const Problem& p) {
  const AverageEntry entry(p);
  if (!p.visibility.has_band) return entry.rows * entry.keys;
  return clamped_sum(entry.rows, entry.offset + static_cast<double>(p.visibility.right) + 1, entry.keys) -
         clamped_sum(entry.rows, entry.offset - static_cast<double>(p.visibility.left), entry.keys);
}

Cost cost(const Problem& p) {
  const auto batch = static_cast<double>(p.batch);
  const auto dims = static_cast<double>(p.dim + p.value_dim);
  const double rows = static_cast<double>(p.heads) * static_cast<double>(p.all_rows());

  const AverageEntry entry(p);
  double reachable_keys = p.queries == 0 ? 0 : entry.keys;
  if (p.visibility.has_band && p.queries > 0) {
    const double begin = std::max(entry.offset - static_cast<double>(p.visibility.left), 0.0);
    const double end =
        std::min(entry.offset + entry.rows + static_cast<double>(p.visibility.right), entry.keys);
    reachable_keys = std::max(end - begin, 0.0);
  }
  const double mask_bytes = mask_elements(p) * static_cast<double>(dtype_size(p.visibility.mask.dtype));
  const double kv_row_bytes = static_cast<double>((p.key_dim() + p.value_dim) * dtype_size(p.kv.dtype) +
                                                  p.kv.tail_dim * dtype_size(p.dtype));
  const double kv_bytes = batch * static_cast<double>(p.kv_heads) * reachable_keys * kv_row_bytes;
  const double table_bytes =
      p.kv.pages ? batch * reachable_keys / static_cast<double>(p.kv.pages.rows) * 4 : 0;
  const double query_bytes = rows * static_cast<double>(p.dim * dtype_size(p.dtype));
  const double output_bytes = rows * static_cast<double>(p.value_dim * dtype_size(p.output.dtype));
  const double lse_bytes = p.output.lse != nullptr ? rows * 4 : 0;
  const double prior_bytes = static_cast<double>(p.prior.parts) * rows *
                             static_cast<double>(p.value_dim * dtype_size(p.prior.dtype) + 4);
  // New rows are read; that they are then stored is in what the keys cost.
  const double new_bytes =
      p.append.stores ? static_cast<double>(p.kv_heads * p.all_rows() * dtype_size(p.dtype)) * dims : 0;
  return {2 * batch * static_cast<double>(p.heads) * visible_pairs(p) * dims,
          new_bytes + query_bytes + output_bytes + kv_bytes + table_bytes + lse_bytes + mask_bytes +
              prior_bytes + scale_bytes(p)};
}

}  // namespace tessera::core
