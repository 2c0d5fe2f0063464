// One work item from start to end: set up its panels, walk the key tiles, finish its rows.
#if defined(TESSERA_CPU_ATTEND_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_ATTEND_INL
#undef TESSERA_CPU_ATTEND_INL
#else
#define TESSERA_CPU_ATTEND_INL
#endif

#include "cpu/few-inl.hpp"
#include "cpu/finish-inl.hpp"
#include "cpu/lanes-inl.hpp"
#include "cpu/panels-inl.hpp"
#include "cpu/scores-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// The keys of one panel and tile: `keys` of them, the first is key number key0.
struct Range {
  std::int64_t key0;
  std::size_t keys;
};

struct ItemContext {
  const core::Problem& problem;
  const Scoring& scoring;
  const Workspace& work;
};

// Options, mask and band, after the dot products.
template <int NV>
HWY_INLINE void adjust_scores(const ItemContext& c, const Panel& panel, Range range, Vec (&tile_max)[NV]) {
  float* const s = c.work.scores;
  if (c.scoring.full) {
    const bool masked = c.problem.mask.kind != core::MaskKind::none;
    if (masked) load_bias<NV>(c.problem.mask, panel, range.key0, range.keys, c.work.bias);
    finish_scores<NV>(c.scoring, c.problem.alibi_slopes != nullptr, panel, range.key0, range.keys,
                      masked ? c.work.bias : nullptr, s, tile_max);
  }
  const std::int64_t end = range.key0 + static_cast<std::int64_t>(range.keys);
  if (range.key0 < panel.full_begin || end > panel.full_end) {
    hide_outside_band<NV>(panel, range.key0, range.keys, s, tile_max);
  }
}

template <int NV>
HWY_NOINLINE void step_lanes(const ItemContext& c, const Panel& panel, Range range, FloatTile k, FloatTile v,
                             bool careful) {
  const std::size_t value_dim = static_cast<std::size_t>(c.problem.value_dim);
  float* const s = c.work.scores;
  HWY_ALIGN float alpha[kWidth<NV>];
  Vec tile_max[NV];
  score_lanes<NV>(k, range.keys, panel.query, static_cast<std::size_t>(c.problem.dim), s, tile_max);
  adjust_scores<NV>(c, panel, range, tile_max);
  if (careful) {
    softmax_step<NV, true>(s, range.keys, c.scoring.factor, tile_max, panel.max, panel.sum, alpha);
    output_lanes_careful<NV>(v, range.keys, s, alpha, value_dim, panel.output);
  } else {
    softmax_step<NV, false>(s, range.keys, c.scoring.factor, tile_max, panel.max, panel.sum, alpha);
    output_lanes<NV>(v, range.keys, s, alpha, value_dim, panel.output);
  }
}

template <int R, class T>
HWY_INLINE void score_few_panel(const ItemContext& c, const Panel& panel, Range range, Rows<T> k, Rows<T> v,
                                Vec (&tile_max)[kFewVectors]) {
  const F f32;
  float* const s = c.work.scores;
  score_few<R>(k, v, range.keys, panel.query, c.work.query_stride, static_cast<std::size_t>(c.problem.dim),
               static_cast<std::size_t>(c.problem.value_dim), s);
  TESSERA_UNROLL
  for (int i = 0; i < kFewVectors; ++i) {
    tile_max[i] = hn::Set(f32, -kInf);
    for (std::size_t j = 0; j < range.keys; ++j) {
      tile_max[i] = hn::Max(tile_max[i], hn::Load(f32, s + j * kFewWidth + i * kLanes));
    }
  }
  adjust_scores<kFewVectors>(c, panel, range, tile_max);
}

template <int R, class T>
HWY_NOINLINE void step_few(const ItemContext& c, const Panel& panel, Range range, Rows<T> k, Rows<T> v) {
  const F f32;
  const std::size_t value_dim = static_cast<std::size_t>(c.problem.value_dim);
  const std::size_t stride = c.work.output_stride;
  float* const s = c.work.scores;
  HWY_ALIGN float alpha[kFewWidth];
  Vec tile_max[kFewVectors];
  score_few_panel<R>(c, panel, range, k, v, tile_max);
  softmax_step<kFewVectors, false>(s, range.keys, c.scoring.factor, tile_max, panel.max, panel.sum, alpha);
  const std::size_t done = output_few<R>(v, range.keys, s, alpha, value_dim, panel.output, stride);
  if (done == Spans(value_dim).vectors) return;
  // Something is not finite. The weights again, marked this time, for the careful kernel.
  score_few_panel<R>(c, panel, range, k, v, tile_max);
  Vec max[kFewVectors], ignored[kFewVectors];
  TESSERA_UNROLL
  for (int i = 0; i < kFewVectors; ++i) {
    max[i] = usable_max(hn::Load(f32, panel.max + i * kLanes));
    ignored[i] = hn::Zero(f32);
  }
  weigh<kFewVectors, true>(s, range.keys, hn::Set(f32, c.scoring.factor), max, ignored);
  output_few_careful(R, v, range.keys, s, alpha, value_dim, done, panel.output, stride);
}

template <class T>
HWY_INLINE void step_few_any(const ItemContext& c, const Panel& panel, Range range, Rows<T> k, Rows<T> v) {
  switch (panel.rows) {
    case 1:
      return step_few<1>(c, panel, range, k, v);
    case 2:
      return step_few<2>(c, panel, range, k, v);
    case 3:
      return step_few<3>(c, panel, range, k, v);
    default:
      return step_few<4>(c, panel, range, k, v);
  }
}

// The caller's K or V rows of this item's head.
template <class T>
HWY_INLINE Rows<T> rows_of(const core::Tensor4& tensor, const Item& item) {
  return {static_cast<const T*>(tensor.data) + tensor.offset(item.batch, item.kv_head, 0), tensor.row_stride};
}

// Walks the key tiles. Tile borders lie at fixed keys, whatever the rows: see schedule.hpp.
template <class T>
HWY_INLINE void walk_tiles(const ItemContext& c, const Schedule& schedule, const Item& item, int panels) {
  const core::Problem& problem = c.problem;
  std::int64_t begin = problem.keys, end = 0;
  bool lanes = false;
  for (int i = 0; i < panels; ++i) {
    const Panel& panel = c.work.panels[i];
    lanes = lanes || panel.kind != PanelKind::few;
    if (panel.key_begin >= panel.key_end) continue;
    begin = std::min(begin, panel.key_begin);
    end = std::max(end, panel.key_end);
  }
  if (begin >= end) return;
  const Rows<T> k = rows_of<T>(problem.key, item), v = rows_of<T>(problem.value, item);
  const std::size_t k_stride = c.work.query_stride, v_stride = c.work.output_stride;
  bool careful = false;
  std::int64_t border = item.key_begin + (begin - item.key_begin) / schedule.key_tile * schedule.key_tile;
  for (; border < end; border += schedule.key_tile) {
    const std::int64_t first = std::max(border, begin), last = std::min(border + schedule.key_tile, end);
    if (lanes) {
      const std::size_t keys = static_cast<std::size_t>(last - first);
      convert_rows(k.row(static_cast<std::size_t>(first)), k.stride, keys,
                   static_cast<std::size_t>(problem.dim), c.work.key, k_stride);
      const bool finite = convert_rows(v.row(static_cast<std::size_t>(first)), v.stride, keys,
                                       static_cast<std::size_t>(problem.value_dim), c.work.value, v_stride);
      careful = careful || !finite;
    }
    for (int i = 0; i < panels; ++i) {
      const Panel& panel = c.work.panels[i];
      const std::int64_t from = std::max(first, panel.key_begin), to = std::min(last, panel.key_end);
      if (from >= to) continue;
      const Range range{from, static_cast<std::size_t>(to - from)};
      if (!lanes) {
        const std::size_t at = static_cast<std::size_t>(from);
        step_few_any(c, panel, range, Rows<T>{k.row(at), k.stride}, Rows<T>{v.row(at), v.stride});
        continue;
      }
      const std::size_t at = static_cast<std::size_t>(from - first);
      const FloatTile kt{c.work.key + at * k_stride, k_stride}, vt{c.work.value + at * v_stride, v_stride};
      if (panel.kind == PanelKind::wide) {
        step_lanes<kWide>(c, panel, range, kt, vt, careful);
      } else if (panel.kind == PanelKind::narrow) {
        step_lanes<kNarrow>(c, panel, range, kt, vt, careful);
      } else {
        step_few_any(c, panel, range, Rows<float>{kt.data, static_cast<std::int64_t>(kt.stride)},
                     Rows<float>{vt.data, static_cast<std::int64_t>(vt.stride)});
      }
    }
  }
}

template <class T>
void attend_typed(const Call& call, std::int64_t index, std::byte* scratch) {
  const core::Problem& problem = *call.problem;
  const Scoring scoring = scoring_of(problem);
  const Item item = call.schedule.item(problem, index);
  const Workspace work(problem, call.schedule, scratch);
  const int panels = set_up_panels<T>(problem, scoring, item, work);
  // The lanes beside a few-rows panel are never written, only read along.
  std::fill(work.scores, work.scores + call.schedule.key_tile * static_cast<std::int64_t>(kFewWidth), 0.0f);
  walk_tiles<T>(ItemContext{problem, scoring, work}, call.schedule, item, panels);
  for (int i = 0; i < panels; ++i) finish_panel<T>(call, scoring, item, work, work.panels[i]);
  if (call.schedule.splits == 1) return;
  const std::int64_t group =
      (item.batch * problem.kv_heads + item.kv_head) * call.schedule.row_tiles + item.tile;
  // Whoever finishes last merges; acq_rel makes every other split's partial results visible to it.
  if (call.unfinished[group].fetch_sub(1, std::memory_order_acq_rel) == 1) {
    merge_splits<T>(call, scoring, item, work.row);
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
