// One work item from start to end: set up its panels, walk the key tiles, finish its rows.
#if defined(TESSERA_CPU_ATTEND_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ATTEND_INL
#undef TESSERA_CPU_ATTEND_INL
#else
#define TESSERA_CPU_ATTEND_INL
#endif

#include <type_traits>

#include "cpu/codes-inl.hpp"
#include "cpu/feed-inl.hpp"
#include "cpu/finish-inl.hpp"
#include "cpu/one-key-inl.hpp"
#include "cpu/panels-inl.hpp"
#include "cpu/rows.hpp"
#include "cpu/steps-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// The rows of K and V of an item, for kernels that take them by their addresses: where they are.
template <class T>
struct FewRows {
  using Element = T;
  FewRows(const ItemContext& c, const Item& item)
      : key(c.problem.kv, c.problem.kv.key, item, sizeof(T)),
        value(c.problem.kv, c.problem.kv.value, item, sizeof(T)) {}
  // `count` from key number `first` on, as rows `at` ... of a tile.
  HWY_INLINE void put(std::int64_t first, std::int64_t count, std::int64_t at, const T** k,
                      const T** v) const {
    key.put(first, count, k + at);
    value.put(first, count, v + at);
  }
  static TileScales scales() { return {}; }
  Rows key, value;
};

// Of codes, and of keys in two tensors: as floats, in the item's scratch memory.
template <>
struct FewRows<Code> {
  using Element = float;
  FewRows(const ItemContext& c, const Item& item)
      : work(c.work), key(CodeRows::keys(c.problem, item)), value(CodeRows::values(c.problem, item)) {}
  HWY_INLINE void put(std::int64_t first, std::int64_t count, std::int64_t at, const float** k,
                      const float** v) const {
    const auto rows = static_cast<std::size_t>(count), begin = static_cast<std::size_t>(at);
    key.read(first, rows, work.key + begin * work.query_stride, work.query_stride);
    value.read(first, rows, work.value + begin * work.output_stride, work.output_stride);
    for (std::size_t i = begin; i < begin + rows; ++i) {
      k[i] = work.key + i * work.query_stride;
      v[i] = work.value + i * work.output_stride;
    }
  }
  static TileScales scales() { return {}; }
  const Workspace& work;
  CodeRows key, value;
};

// Codes where they are, beside what they are multiplied by.
template <class Format>
struct FewRows<CodeOf<Format>> {
  using Element = CodeOf<Format>;
  FewRows(const ItemContext& c, const Item& item)
      : key(CodeRows::keys(c.problem, item)),
        value(CodeRows::values(c.problem, item)),
        channels(value.channels(c.work.value)) {}
  HWY_INLINE void put(std::int64_t first, std::int64_t count, std::int64_t at, const Element** k,
                      const Element** v) {
    key.rows().put(first, count, k + at);
    value.rows().put(first, count, v + at);
    key.put_scales(first, static_cast<std::size_t>(count), key_scales + at);
    if (channels == nullptr) value.put_scales(first, static_cast<std::size_t>(count), value_scales + at);
  }
  TileScales scales() const { return {key_scales, channels == nullptr ? value_scales : nullptr, channels}; }
  CodeRows key, value;
  const float* channels;
  float key_scales[kStreams * kFewKeys], value_scales[kStreams * kFewKeys];
};

// Walks keys begin ... end for an item of few-rows panels only, in kStreams stretches side by side.
template <class T>
HWY_INLINE void walk_few(const ItemContext& c, const Item& item, int panels, KeySpan keys) {
  using Element = typename FewRows<T>::Element;
  FewRows<T> rows(c, item);
  const Element *key_rows[kStreams * kFewKeys], *value_rows[kStreams * kFewKeys];
  // `count` keys from each of `places` stretches.
  const auto step = [&](std::int64_t key0, std::int64_t stretch, std::int64_t count, int places) HWY_ATTR {
    const std::size_t each = static_cast<std::size_t>(count);
    FewTile<Element> tile{{key_rows, each, places}, {value_rows, each, places}, {}};
    for (int g = 0; g < places; ++g) {
      tile.key0[g] = key0 + g * stretch;
      rows.put(tile.key0[g], count, g * count, key_rows, value_rows);
    }
    tile.scales = rows.scales();
    for (int i = 0; i < panels; ++i) step_few_any(c, c.work.panels[i], tile);
  };
  const std::int64_t tiles = (keys.end - keys.begin) / (kStreams * kFewKeys);
  const std::int64_t stretch = tiles * kFewKeys;
  for (std::int64_t t = 0; t < tiles; ++t) step(keys.begin + t * kFewKeys, stretch, kFewKeys, kStreams);
  for (std::int64_t at = keys.begin + kStreams * stretch; at < keys.end; at += kFewKeys)
    step(at, 0, std::min(kFewKeys, keys.end - at), 1);
}

inline void walk_few_codes(const ItemContext& c, const Item& item, int panels, KeySpan keys) {
  const bool in_place =
      CodeRows::keys(c.problem, item).in_place() && CodeRows::values(c.problem, item).in_place();
  if (!in_place) return walk_few<Code>(c, item, panels, keys);
  with_format(c.problem.kv.dtype,
              [&](auto format) HWY_ATTR { walk_few<CodeOf<decltype(format)>>(c, item, panels, keys); });
}

// Walks keys begin ... end for the only panel of its item, with keys in lanes. As in walk_tiles, tile borders
// lie at fixed keys.
template <class T>
HWY_INLINE void walk_tiny(const ItemContext& c, const Item& item, KeySpan keys) {
  constexpr std::int64_t kTile = kColumn;
  const FewRows<T> rows(c, item);
  const Panel& panel = c.work.panels[0];
  const std::size_t dim = static_cast<std::size_t>(c.problem.dim);
  const std::size_t value_dim = static_cast<std::size_t>(c.problem.value_dim);
  float* const key = c.work.columns;
  float* const value = key + kTinyDim * kColumnStride;
  float* const scratch = value + kTinyDim * kColumnStride;
  TinyRow row{};
  row.dim = dim;
  row.value_dim = value_dim;
  row.key = key;
  row.value = value;
  row.s = scratch + kTinyDim * kColumnStride;
  std::int64_t border = item.key_begin + (keys.begin - item.key_begin) / kTile * kTile;
  for (; border < keys.end; border += kTile) {
    const std::int64_t end = std::min(border + kTile, keys.end);
    const std::size_t count = static_cast<std::size_t>(end - border);
    to_columns(as_floats<T>(rows.key, border, count, dim, scratch), count, dim, key);
    to_columns(as_floats<T>(rows.value, border, count, value_dim, scratch), count, value_dim, value);
    const bool careful = !finite_columns(value, count, value_dim);
    for (int r = 0; r < panel.rows; ++r) {
      const std::int64_t first = std::max(panel.begin[r], border), last = std::min(panel.end[r], end);
      if (first >= last) continue;
      row.from = static_cast<std::size_t>(first - border);
      row.to = static_cast<std::size_t>(last - border);
      row.query = panel.query + static_cast<std::size_t>(r) * c.work.query_stride;
      row.output = panel.output + static_cast<std::size_t>(r) * c.work.output_stride;
      row.max = panel.max + r;
      row.sum = panel.sum + r;
      careful ? step_tiny_row<true>(row, c.scoring.factor) : step_tiny_row<false>(row, c.scoring.factor);
    }
  }
}

template <class T>
inline FeedRows feed_rows(const Rows& rows, std::int64_t length, float* to, std::size_t to_stride,
                          RowConverter convert) {
  return {.from = rows,
          .bytes = length * static_cast<std::int64_t>(sizeof(T)),
          .length = static_cast<std::size_t>(length),
          .to = to,
          .to_stride = to_stride,
          .convert = convert};
}

// How the panels of an item go through a tile: with K and V as floats. pairs-inl.hpp has another way.
template <class T>
struct FloatTiles {
  static constexpr std::int64_t kKeysTogether =
      1;  // a panel's keys begin at a multiple of it within the tile

  FloatTiles(const ItemContext& context, const Item& item, int /*panels*/)
      : c(context), feed(key_rows(context, item), value_rows(context, item)) {}
  HWY_INLINE void step(const Panel& panel, Range range) { step_fed(c, panel, range, feed); }

  // Floats whose rows lie close together can be read where they are. Not V: it is read column by column, and
  // few rows with the caller's stride, often a power of two, fit into a cache that way.
  static FeedRows key_rows(const ItemContext& c, const Item& item) {
    const Rows from(c.problem.kv, c.problem.kv.key, item, sizeof(T));
    FeedRows rows = feed_rows<T>(from, c.problem.dim, c.work.key, c.work.query_stride, convert_rows<T>);
    const bool close = !from.paged() && from.stride() < 2 * rows.bytes;
    if (std::is_same_v<T, float> && close) rows.convert = nullptr;
    return rows;
  }
  static FeedRows value_rows(const ItemContext& c, const Item& item) {
    return feed_rows<T>(Rows(c.problem.kv, c.problem.kv.value, item, sizeof(T)), c.problem.value_dim,
                        c.work.value, c.work.output_stride, convert_rows<T>);
  }

  const ItemContext& c;
  Feed feed;
};

// The same of codes.
template <>
struct FloatTiles<Code> {
  static constexpr std::int64_t kKeysTogether = 1;

  FloatTiles(const ItemContext& context, const Item& item, int /*panels*/)
      : c(context),
        key(CodeRows::keys(c.problem, item)),
        value(CodeRows::values(c.problem, item)),
        feed(feed_rows(key, c.work.key, c.work.query_stride),
             feed_rows(value, c.work.value, c.work.output_stride)) {}
  FloatTiles(const FloatTiles&) = delete;  // the feed points at the rows
  HWY_INLINE void step(const Panel& panel, Range range) { step_fed(c, panel, range, feed); }

  static FeedRows feed_rows(const CodeRows& rows, float* to, std::size_t to_stride) {
    return {.from = rows.rows(),
            .bytes = rows.row_bytes(),
            .length = 0,
            .to = to,
            .to_stride = to_stride,
            .convert = nullptr,
            .codes = &rows};
  }

  const ItemContext& c;
  CodeRows key, value;
  Feed feed;
};

// Walks the key tiles of an item that has panels with rows in lanes. Tile borders lie at fixed keys,
// whatever the rows: see schedule.hpp.
template <class Tiles>
HWY_INLINE void walk_tiles(const ItemContext& c, const Schedule& schedule, const Item& item, int panels,
                           KeySpan keys) {
  Tiles tiles(c, item, panels);
  std::int64_t border =
      item.key_begin + (keys.begin - item.key_begin) / schedule.key_tile * schedule.key_tile;
  for (; border < keys.end; border += schedule.key_tile) {
    std::int64_t first = std::max(border, keys.begin);
    first -= (first - border) % Tiles::kKeysTogether;
    const std::int64_t last = std::min(border + schedule.key_tile, keys.end);
    const std::int64_t next = std::min(last + schedule.key_tile, keys.end);
    const std::int64_t blocks = panels * (last - first + c.problem.value_dim) / kWideBlock;
    tiles.feed.start(first, static_cast<std::size_t>(last - first), static_cast<std::size_t>(next - last),
                     static_cast<std::size_t>(blocks));
    for (int i = 0; i < panels; ++i) {
      const Panel& panel = c.work.panels[i];
      std::int64_t from = std::max(first, panel.key_begin);
      const std::int64_t to = std::min(last, panel.key_end);
      if (from >= to) continue;
      from -= (from - border) % Tiles::kKeysTogether;
      tiles.step(panel, {from, static_cast<std::size_t>(to - from)});
    }
  }
}

template <class T, class Tiles>
HWY_INLINE void walk_keys(const ItemContext& c, const Schedule& schedule, const Item& item, int panels) {
  KeySpan keys{c.problem.keys, 0};
  for (int i = 0; i < panels; ++i) {
    const Panel& panel = c.work.panels[i];
    if (panel.key_begin >= panel.key_end) continue;
    keys.begin = std::min(keys.begin, panel.key_begin);
    keys.end = std::max(keys.end, panel.key_end);
  }
  if (keys.begin >= keys.end) return;
  if (c.work.panels[0].kind == PanelKind::tiny) {
    walk_tiny<T>(c, item, keys);
    // By the rows of the problem, not of the item: see choose_kind.
  } else if (schedule.rows <= few_rows_item(c.problem) && c.work.panels[0].kind == PanelKind::few) {
    if constexpr (std::is_same_v<T, Code>)
      walk_few_codes(c, item, panels, keys);
    else
      walk_few<T>(c, item, panels, keys);
  } else {
    walk_tiles<Tiles>(c, schedule, item, panels, keys);
  }
}

template <class T, class Tiles = FloatTiles<T>>
void attend_typed(const Call& call, std::int64_t index, std::byte* scratch) {
  const core::Problem& problem = *call.problem;
  const Scoring scoring = scoring_of(problem);
  const Item item = call.schedule.item(problem, index);
  const Workspace work(problem, call.schedule, scratch);
  if (has_one_key(problem, scoring)) return attend_one_key<T>(problem, scoring, item, work);
  const int panels = set_up_panels<T>(problem, scoring, item, work);
  // The lanes beside a few-rows panel are never written, only read along. Such panels come last.
  if (panels > 0 && work.panels[panels - 1].kind == PanelKind::few) {
    const std::int64_t used = std::max(call.schedule.key_tile, kStreams * kFewKeys) * kFewWidth;
    std::fill(work.scores, work.scores + std::min(work.score_floats, used), 0.0f);
  }
  walk_keys<T, Tiles>(ItemContext{problem, scoring, work}, call.schedule, item, panels);
  for (int i = 0; i < panels; ++i) finish_panel<T>(call, scoring, item, work, work.panels[i]);
  if (call.schedule.splits == 1) return;
  const std::int64_t group =
      (item.batch * problem.kv_heads + item.kv_head) * call.schedule.row_tiles + item.tile;
  // Whoever finishes last merges; acq_rel makes every other split's partial results visible to it.
  if (call.unfinished[group].fetch_sub(1, std::memory_order_acq_rel) == 1) {
    merge_splits<T>(call, scoring, item, work.rows_in_transit);
  }
}

inline void attend_item(const Call& call, std::int64_t index, std::byte* scratch) {
  if (call.problem->kv.tail_dim > 0) return attend_typed<Code>(call, index, scratch);
  switch (call.problem->kv.dtype) {
    case TESSERA_F16:
      return attend_typed<F16>(call, index, scratch);
    case TESSERA_BF16:
      return attend_typed<BF16>(call, index, scratch);
    case TESSERA_F8E4M3:
    case TESSERA_F8E5M2:
    case TESSERA_I8:
      return attend_typed<Code>(call, index, scratch);
    default:
      return attend_typed<float>(call, index, scratch);
  }
}

inline std::size_t scratch_bytes(const core::Problem& problem, const Schedule& schedule) {
  return Workspace(problem, schedule, nullptr).bytes;
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
