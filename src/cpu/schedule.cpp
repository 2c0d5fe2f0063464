// Cutting a problem into work items: see schedule.hpp.
#include "cpu/schedule.hpp"

#include <algorithm>

namespace tessera::cpu {
namespace {

constexpr std::int64_t kTileBytes = 96 << 10;   // a K and V tile in f32: a part of a second-level cache
constexpr std::int64_t kRowsBytes = 256 << 10;  // Q and O of a row tile: most of the rest of it
constexpr std::int64_t kKeyStep = 24;           // a multiple of every target's key block
constexpr std::int64_t kMinRowTile = 32;        // at least few_rows_item, which must not be divided
constexpr std::int64_t kMaxRowTile = 256;
constexpr std::int64_t kFewRows = 64;     // so few rows that the key range is worth cutting
constexpr std::int64_t kMinChunk = 2040;  // keys
constexpr std::int64_t kMaxSplits = 64;
constexpr std::int64_t kItemsPerThread = 4;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace

Schedule make_schedule(const core::Problem& problem, const Blocking& blocking, int threads,
                       std::int64_t entries) {
  Schedule s;
  const std::int64_t row_bytes = (problem.dim + problem.value_dim) * 4;
  s.group = problem.group();
  s.rows = s.group * problem.queries;
  s.key_tile = std::clamp(kTileBytes / row_bytes / kKeyStep * kKeyStep, kKeyStep, kMaxKeyTile);

  s.key_chunk = std::max<std::int64_t>(problem.keys, 1);
  if (s.rows <= kFewRows && problem.keys > kMinChunk) {
    s.key_chunk = round_up(std::max(kMinChunk, ceil_div(problem.keys, kMaxSplits)), s.key_tile);
  }
  s.splits = std::max<std::int64_t>(1, ceil_div(problem.keys, s.key_chunk));

  const std::int64_t panel = blocking.wide_rows;
  const std::int64_t least = round_up(kMinRowTile, panel);
  s.row_tile = round_up(std::clamp(kRowsBytes / row_bytes, least, kMaxRowTile), panel);
  const std::int64_t pairs = problem.batch * problem.kv_heads * s.splits;
  const double others =
      static_cast<double>(entries) / static_cast<double>(std::max<std::int64_t>(problem.batch, 1));
  const auto too_few = [&] {  // items; in floating point, since not every size that is asked about has memory
    const auto tiles = static_cast<double>(ceil_div(s.rows, s.row_tile));
    return others * static_cast<double>(pairs) * tiles < static_cast<double>(kItemsPerThread * threads);
  };
  while (s.row_tile > least && too_few()) {
    s.row_tile = std::max(least, round_up(s.row_tile / 2, panel));
  }
  // Less than a panel at the end joins the tile before it, rather than convert K and V for so little.
  s.row_tiles = s.rows < panel ? ceil_div(s.rows, panel) : (s.rows - panel) / s.row_tile + 1;
  s.max_item_rows = std::min(s.rows, s.row_tile + panel - 1);
  s.items = pairs * s.row_tiles;
  return s;
}

// Items of one (batch entry, kv head) stay together, so that its K and V are still in a shared cache;
// the last row tile comes first, because under a causal mask it is the longest.
Item Schedule::item(const core::Problem& problem, std::int64_t index) const {
  Item it;
  it.group = group;
  it.split = index % splits;
  index /= splits;
  it.tile = row_tiles - 1 - index % row_tiles;
  index /= row_tiles;
  it.kv_head = index % problem.kv_heads;
  it.batch = index / problem.kv_heads;
  it.row_begin = it.tile * row_tile;
  it.row_end = it.tile + 1 == row_tiles ? rows : it.row_begin + row_tile;
  it.key_begin = it.split * key_chunk;
  it.key_end = std::min(problem.keys, it.key_begin + key_chunk);
  return it;
}

SharedNeeds Schedule::needs(const core::Problem& problem) const {
  if (splits == 1) return {};
  const std::int64_t rows_in_parts = problem.batch * problem.kv_heads * splits * rows;
  return {rows_in_parts * partial_floats(problem), items / splits};
}

SharedNeeds most_needs(const core::Problem& problem) {
  if (problem.keys <= kMinChunk) return {};
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const double group = number(problem.group()), heads = number(problem.kv_heads),
               batch = number(problem.batch);
  const double splits = number(std::min(kMaxSplits, ceil_div(problem.keys, kMinChunk)));
  double rows = splits * std::min(batch * number(kFewRows), group * number(problem.all_rows()));
  // Keys one behind the other are shared out among the entries.
  if (problem.kv.offsets) {
    const double of_entry = std::min(number(kFewRows), group * number(problem.queries));
    rows = std::min(rows, (number(problem.keys / kMinChunk) + batch) * of_entry);
  }
  constexpr double kMost = 0x1p56;  // no machine has so much
  const auto counted = [&](double n) { return static_cast<std::int64_t>(std::min(n, kMost)); };
  return {counted(heads * rows * number(Schedule{}.partial_floats(problem))),
          counted(batch * heads * number(ceil_div(kFewRows, kMinRowTile)))};
}

}  // namespace tessera::cpu
