// One step of one panel over one tile of keys: scores, options and masks, softmax, output.
#if defined(TESSERA_CPU_STEPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_STEPS_INL
#undef TESSERA_CPU_STEPS_INL
#else
#define TESSERA_CPU_STEPS_INL
#endif

#include "cpu/feed-inl.hpp"
#include "cpu/few-inl.hpp"
#include "cpu/lanes-inl.hpp"
#include "cpu/masks-inl.hpp"
#include "cpu/panels-inl.hpp"
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
  TileScales scales{};  // of codes
};

template <int R, class T>
HWY_INLINE void score_few_panel(const ItemContext& c, const Panel& panel, const FewTile<T>& tile,
                                const MaskLook (&look)[kStreams], Vec (&tile_max)[kFewVectors]) {
  const F f32;
  score_few<R>(tile.k, tile.v, panel.query, c.work.query_stride, static_cast<std::size_t>(c.problem.dim),
               c.work.scores);
  if constexpr (kIsCode<T>) scale_keys<T>(tile.scales.key, tile.k.all(), c.work.scores);
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
  if constexpr (kIsCode<T>) {
    if (tile.scales.value != nullptr) scale_keys<T>(tile.scales.value, keys, s);
  }
  const OutputStep<T> step{.v = tile.v,
                           .p = s,
                           .alpha = alpha,
                           .dim = Spans(static_cast<std::size_t>(c.problem.value_dim)),
                           .o = panel.output,
                           .o_stride = c.work.output_stride,
                           .scales = tile.scales};
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

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
