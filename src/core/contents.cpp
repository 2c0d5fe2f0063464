// What lengths, offsets and page tables hold, where it can be looked at: on the host.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/problem.hpp"

namespace tessera::core {
namespace {

Status check_offsets(std::string_view name, const Offsets& offsets, std::int64_t batch, std::int64_t most,
                     std::string_view what) {
  for (std::int64_t n = 0; n <= batch; ++n) {
    const std::int64_t at = offsets[n];
    if (at < 0 || at > most)
      return invalid(
          fmt::format("{}[{}] is {}; 0 to {} (the number of {}) is accepted", name, n, at, most, what));
    if (n > 0 && at < offsets[n - 1]) {
      return invalid(fmt::format("{}[{}] is {}, but {}[{}] is {}: offsets must not fall", name, n, at, name,
                                 n - 1, offsets[n - 1]));
    }
  }
  return {};
}

Status check_lengths(const Problem& p) {
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t length = p.key_length(b);
    if (length >= 0 && length <= p.keys) continue;
    return invalid(fmt::format("key_lengths[{}] is {}; 0 to {} (the number of keys{}) is accepted", b, length,
                               p.keys, p.kv.pages ? " that page_table has room for" : ""));
  }
  return {};
}

// Whether an element of the mask tensor hides its key.
bool hides(const MaskTensor& mask, std::int64_t at) {
  constexpr std::uint16_t kMinusInfF16 = 0xfc00, kMinusInfBf16 = 0xff80;
  if (mask.kind == MaskKind::boolean) return static_cast<const std::uint8_t*>(mask.data)[at] == 0;
  if (mask.dtype == TESSERA_F32)
    return static_cast<const float*>(mask.data)[at] == -std::numeric_limits<float>::infinity();
  return static_cast<const std::uint16_t*>(mask.data)[at] ==
         (mask.dtype == TESSERA_F16 ? kMinusInfF16 : kMinusInfBf16);
}

struct KeyRange {
  std::int64_t begin, end;
};

// Keys of an entry (p is Problem::entry's) that the band lets row i see.
KeyRange band_of(const Problem& p, std::int64_t i) {
  if (!p.visibility.has_band) return {0, p.keys};
  const std::int64_t at = i + p.position_offset(p.keys);
  return {std::max<std::int64_t>(at - p.visibility.left, 0), std::min(at + p.visibility.right + 1, p.keys)};
}

// The first of the keys that some row of the entry sees through the mask tensor, or -1.
std::int64_t first_seen(const Problem& p, KeyRange keys) {
  const MaskTensor& mask = p.visibility.mask;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const std::int64_t column = j - mask.first_key(p.keys);
    for (std::int64_t i = 0; i < p.queries; ++i) {
      const KeyRange band = band_of(p, i);
      if (j < band.begin || j >= band.end) continue;
      if (mask.kind == MaskKind::none || column < 0) return j;
      for (std::int64_t h = 0; h < p.heads; ++h) {
        if (!hides(mask, h * mask.strides[1] + i * mask.strides[2] + column * mask.strides[3])) return j;
      }
    }
  }
  return -1;
}

// The mask tensor is asked only where an entry of the table is no page: that is rare, and it takes long.
Status check_table(const Problem& p, std::int64_t b) {
  Problem entry = p.entry(b);
  entry.keys = p.key_length(b);  // even where there are no pages at all
  if (entry.queries == 0) return {};
  const PageTable& pages = p.kv.pages;
  const KeyRange seen{band_of(entry, 0).begin, band_of(entry, entry.queries - 1).end};
  for (std::int64_t n = seen.begin / pages.rows; n * pages.rows < seen.end; ++n) {
    if (pages.has(pages.page(b, n))) continue;
    const KeyRange keys{std::max(seen.begin, n * pages.rows), std::min(seen.end, (n + 1) * pages.rows)};
    const std::int64_t needed = first_seen(entry, keys);
    if (needed < 0) continue;
    return invalid(fmt::format(
        "page_table[{}, {}] is {}, and key {} of entry {} needs it: {}", b, n, pages.page(b, n), needed, b,
        pages.count == 0 ? "there are no pages" : fmt::format("0 to {} is accepted", pages.count - 1)));
  }
  return {};
}

}  // namespace

Status validate_contents(const Problem& p) {
  if (p.query_offsets)
    if (Status s = check_offsets("query_offsets", p.query_offsets, p.batch, p.queries, "rows"); !s.ok())
      return s;
  if (p.kv.offsets)
    if (Status s = check_offsets("key_offsets", p.kv.offsets, p.batch, p.keys, "keys"); !s.ok()) return s;
  if (p.kv.lengths != nullptr)
    if (Status s = check_lengths(p); !s.ok()) return s;
  for (std::int64_t b = 0; p.kv.pages && b < p.batch; ++b)
    if (Status s = check_table(p, b); !s.ok()) return s;
  return {};
}

}  // namespace tessera::core
