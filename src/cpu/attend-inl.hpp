// One work item from start to end: set up its panels, walk the key tiles, finish its rows.
#if defined(TESSERA_CPU_ATTEND_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ATTEND_INL
#undef TESSERA_CPU_ATTEND_INL
#else
#define TESSERA_CPU_ATTEND_INL
#endif

#include <type_traits>

#include "cpu/feed-inl.hpp"
#include "cpu/few-inl.hpp"
#include "cpu/finish-inl.hpp"
#include "cpu/lanes-inl.hpp"
#include "cpu/masks-inl.hpp"
#include "cpu/one-key-inl.hpp"
#include "cpu/panels-inl.hpp"
#include "cpu/rows.hpp"
#include "cpu/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

struct ItemContext {
  const core::Problem& problem;
  const Scoring& scoring;
  const Workspace& work;
};

// Options, mask and band, after the dot products. `mask_at` is where the range begins in what the look found.
template <int NV>
HWY_INLINE void adjust_scores(const ItemContext& c, const Panel& panel, Range range, const MaskLook& look,
                              std::size_t mask_at, float* s, Vec (&tile_max)[NV]) {
  if (c.scoring.full) {
    finish_scores<NV>(c.scoring, c.problem.scoring.alibi_slopes.data != nullptr, panel, range.key0,
                      range.keys, look.bias == nullptr ? nullptr : look.bias + mask_at * kWidth<NV>, s,
                      tile_max);
  }
  if (!look.open) hide_masked<NV>(look.bits, mask_at, range.keys, s, tile_max);
  const std::int64_t end = range.key0 + static_cast<std::int64_t>(range.keys);
  if (range.key0 < panel.full_begin || end > panel.full_end) {
    hide_outside_band<NV>(panel, range.key0, range.keys, s, tile_max);
  }
}

// One panel with rows in lanes; `at` is where its keys begin in the tile.
template <int NV>
HWY_NOINLINE void step_lanes(const ItemContext& c, const Panel& panel, Range range, std::size_t at,
                             Feed& feed) {
  const std::size_t value_dim = static_cast<std::size_t>(c.problem.value_dim);
  float* const s = c.work.scores;
  const MaskLook look = look_at_mask<NV>(c.problem, panel, range, c.work.bias);
  if (look.begin == look.end) return;
  range = {range.key0 + static_cast<std::int64_t>(look.begin), look.end - look.begin};
  at += look.begin;
  HWY_ALIGN float alpha[kWidth<NV>];
  Vec tile_max[NV];
  score_lanes<NV>(feed, at, range.keys, panel.query, static_cast<std::size_t>(c.problem.dim), s, tile_max);
  adjust_scores<NV>(c, panel, range, look, look.begin, s, tile_max);
  feed.need_all();
  const FloatTile v = feed.value().from(at);
  if (feed.careful()) {
    softmax_step<NV, true>(s, range.keys, c.scoring.factor, tile_max, panel.max, panel.sum, alpha);
    output_lanes_careful<NV>(v, range.keys, s, alpha, value_dim, panel.output);
  } else {
    softmax_step<NV, false>(s, range.keys, c.scoring.factor, tile_max, panel.max, panel.sum, alpha);
    output_lanes<FloatTerms, NV>(feed, v.data, v.stride, range.keys, s, alpha, value_dim, panel.output);
  }
}

// A tile of a few-rows panel: K and V rows, and the number of the first key of each stream.
template <class T>
struct FewTile {
  Streams<T> k, v;
  std::int64_t key0[kStreams];
};

template <int R, class T>
HWY_INLINE void score_few_panel(const ItemContext& c, const Panel& panel, const FewTile<T>& tile,
                                const MaskLook (&look)[kStreams], Vec (&tile_max)[kFewVectors]) {
  const F f32;
  score_few<R>(tile.k, tile.v, panel.query, c.work.query_stride, static_cast<std::size_t>(c.problem.dim),
               c.work.scores);
  TESSERA_UNROLL
  for (int i = 0; i < kFewVectors; ++i) tile_max[i] = hn::Set(f32, -kInf);
  for (int g = 0; g < tile.k.count; ++g) {
    float* const s = c.work.scores + static_cast<std::size_t>(g) * tile.k.keys * kFewWidth;
    Vec stream_max[kFewVectors];
    TESSERA_UNROLL
    for (int i = 0; i < kFewVectors; ++i) {
      stream_max[i] = hn::Set(f32, -kInf);
      for (std::size_t j = 0; j < tile.k.keys; ++j) {
        stream_max[i] = hn::Max(stream_max[i], hn::Load(f32, s + j * kFewWidth + i * kLanes));
      }
    }
    adjust_scores<kFewVectors>(c, panel, Range{tile.key0[g], tile.k.keys}, look[g], 0, s, stream_max);
    TESSERA_UNROLL
    for (int i = 0; i < kFewVectors; ++i) tile_max[i] = hn::Max(tile_max[i], stream_max[i]);
  }
}

template <int R, class T>
HWY_NOINLINE void step_few(const ItemContext& c, const Panel& panel, const FewTile<T>& tile) {
  const F f32;
  const std::size_t keys = tile.k.all();
  float* const s = c.work.scores;
  MaskLook look[kStreams];
  bool seen = false;
  for (int g = 0; g < tile.k.count; ++g) {
    look[g] = look_at_mask<kFewVectors>(c.problem, panel, {tile.key0[g], tile.k.keys},
                                        c.work.bias + static_cast<std::size_t>(g) * tile.k.keys * kFewWidth);
    seen |= look[g].begin < look[g].end;
    look[g].open &= look[g].bits == nullptr || look[g].end - look[g].begin == tile.k.keys;
  }
  if (!seen) return;
  HWY_ALIGN float alpha[kFewWidth];
  Vec tile_max[kFewVectors];
  score_few_panel<R>(c, panel, tile, look, tile_max);
  softmax_step<kFewVectors, false>(s, keys, c.scoring.factor, tile_max, panel.max, panel.sum, alpha);
  const OutputStep<T> step{.v = tile.v,
                           .p = s,
                           .alpha = alpha,
                           .dim = Spans(static_cast<std::size_t>(c.problem.value_dim)),
                           .o = panel.output,
                           .o_stride = c.work.output_stride};
  const std::size_t done = output_few<R>(step);
  if (done == step.dim.vectors) return;
  // Something is not finite. The weights again, marked this time, for the careful kernel.
  score_few_panel<R>(c, panel, tile, look, tile_max);
  Vec max[kFewVectors], ignored[kFewVectors];
  TESSERA_UNROLL
  for (int i = 0; i < kFewVectors; ++i) {
    max[i] = usable_max(hn::Load(f32, panel.max + i * kLanes));
    ignored[i] = hn::Zero(f32);
  }
  weigh<kFewVectors, true>(s, keys, hn::Set(f32, c.scoring.factor), max, ignored);
  output_few_careful(R, step, done);
}

template <class T>
HWY_INLINE void step_few_any(const ItemContext& c, const Panel& panel, const FewTile<T>& tile) {
  switch (panel.rows) {
    case 1:
      return step_few<1>(c, panel, tile);
    case 2:
      return step_few<2>(c, panel, tile);
    case 3:
      return step_few<3>(c, panel, tile);
    default:
      return step_few<4>(c, panel, tile);
  }
}

// Walks keys begin ... end for an item of few-rows panels only, in kStreams stretches side by side.
template <class T>
HWY_INLINE void walk_few(const ItemContext& c, const Item& item, int panels, KeySpan keys) {
  const core::KeysValues& kv = c.problem.kv;
  const Rows k(kv, kv.key, item, sizeof(T)), v(kv, kv.value, item, sizeof(T));
  const T *key_rows[kStreams * kFewKeys], *value_rows[kStreams * kFewKeys];
  // `count` keys from each of `places` stretches.
  const auto step = [&](std::int64_t key0, std::int64_t stretch, std::int64_t count, int places) HWY_ATTR {
    const std::size_t each = static_cast<std::size_t>(count);
    FewTile<T> tile{{key_rows, each, places}, {value_rows, each, places}, {}};
    for (int g = 0; g < places; ++g) {
      tile.key0[g] = key0 + g * stretch;
      k.put(tile.key0[g], count, key_rows + g * count);
      v.put(tile.key0[g], count, value_rows + g * count);
    }
    for (int i = 0; i < panels; ++i) step_few_any(c, c.work.panels[i], tile);
  };
  const std::int64_t tiles = (keys.end - keys.begin) / (kStreams * kFewKeys);
  const std::int64_t stretch = tiles * kFewKeys;
  for (std::int64_t t = 0; t < tiles; ++t) step(keys.begin + t * kFewKeys, stretch, kFewKeys, kStreams);
  for (std::int64_t at = keys.begin + kStreams * stretch; at < keys.end; at += kFewKeys)
    step(at, 0, std::min(kFewKeys, keys.end - at), 1);
}

// Walks keys begin ... end for the only panel of its item, with keys in lanes. As in walk_tiles, tile borders
// lie at fixed keys.
template <class T>
HWY_INLINE void walk_tiny(const ItemContext& c, const Item& item, KeySpan keys) {
  constexpr std::int64_t kTile = kColumn;
  const core::KeysValues& kv = c.problem.kv;
  const Rows k(kv, kv.key, item, sizeof(T)), v(kv, kv.value, item, sizeof(T));
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
    to_columns(as_floats<T>(k, border, count, dim, scratch), count, dim, key);
    to_columns(as_floats<T>(v, border, count, value_dim, scratch), count, value_dim, value);
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

// One panel, whatever its kind, of an item whose tiles are converted.
HWY_INLINE void step_fed(const ItemContext& c, const Panel& panel, Range range, Feed& feed) {
  const std::size_t at = static_cast<std::size_t>(range.key0 - feed.first());
  if (panel.kind == PanelKind::wide) {
    step_lanes<kWide>(c, panel, range, at, feed);
  } else if (panel.kind == PanelKind::narrow) {
    step_lanes<kNarrow>(c, panel, range, at, feed);
  } else {
    feed.need_all();
    const float *keys[kMaxKeyTile], *values[kMaxKeyTile];
    for (std::size_t j = 0; j < range.keys; ++j) {
      keys[j] = feed.key().from(at + j).data;
      values[j] = feed.value().from(at + j).data;
    }
    step_few_any(c, panel, FewTile<float>{{keys, range.keys, 1}, {values, range.keys, 1}, {range.key0}});
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
  switch (call.problem->dtype) {
    case TESSERA_F16:
      return attend_typed<F16>(call, index, scratch);
    case TESSERA_BF16:
      return attend_typed<BF16>(call, index, scratch);
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
