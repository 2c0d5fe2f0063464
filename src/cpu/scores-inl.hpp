// What happens to a score between Q*K^T and the softmax: scale, softcap, ALiBi, additive mask, band (a
// boolean mask: masks-inl.hpp). Scores lie as s[key][row], rows in lanes, whichever kernel made them.
#if defined(TESSERA_CPU_SCORES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_SCORES_INL
#undef TESSERA_CPU_SCORES_INL
#else
#define TESSERA_CPU_SCORES_INL
#endif

#include <algorithm>

#include "core/problem.hpp"
#include "cpu/panel.hpp"
#include "cpu/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// Hides what each row's band leaves out. The bounds become small floats relative to the tile, which
// are exact, so that one float comparison serves every target.
template <int NV>
HWY_INLINE void hide_outside_band(const Panel& panel, std::int64_t key0, std::size_t keys, float* s,
                                  Vec (&tile_max)[NV]) {
  const F f32;
  HWY_ALIGN float begin[kWidth<NV>] = {};
  HWY_ALIGN float end[kWidth<NV>] = {};
  const std::int64_t count = static_cast<std::int64_t>(keys);
  for (int r = 0; r < panel.rows; ++r) {
    begin[r] = static_cast<float>(std::clamp<std::int64_t>(panel.begin[r] - key0, 0, count));
    end[r] = static_cast<float>(std::clamp<std::int64_t>(panel.end[r] - key0, 0, count));
  }
  Vec lo[NV], hi[NV];
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) {
    lo[v] = hn::Load(f32, begin + v * kLanes);
    hi[v] = hn::Load(f32, end + v * kLanes);
    tile_max[v] = hn::Set(f32, -kInf);
  }
  for (std::size_t j = 0; j < keys; ++j) {
    const Vec key = hn::Set(f32, static_cast<float>(j));
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) {
      float* const at = s + j * kWidth<NV> + v * kLanes;
      const auto visible = hn::And(hn::Le(lo[v], key), hn::Lt(key, hi[v]));
      const Vec x = hn::IfThenElse(visible, hn::Load(f32, at), hn::Set(f32, -kInf));
      tile_max[v] = hn::Max(tile_max[v], x);
      hn::Store(x, f32, at);
    }
  }
}

// The same with a bias and nothing else, the most frequent case.
template <int NV>
HWY_NOINLINE void add_bias(float factor, std::size_t keys, const float* HWY_RESTRICT bias,
                           float* HWY_RESTRICT s, Vec (&tile_max)[NV]) {
  const F f32;
  const Vec minus_inf = hn::Set(f32, -kInf), scale = hn::Set(f32, factor);
  Vec highest[2 * NV];
  TESSERA_UNROLL
  for (int i = 0; i < 2 * NV; ++i) highest[i] = minus_inf;
  const auto add = [&](std::size_t j, int n) HWY_ATTR {
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) {
      float* const at = s + j * kWidth<NV> + v * kLanes;
      const Vec b = hn::Load(f32, bias + j * kWidth<NV> + v * kLanes);
      const Vec sum = hn::Add(hn::Mul(hn::Load(f32, at), scale), b);
      const Vec x = hn::IfThenElse(hn::Eq(b, minus_inf), minus_inf, sum);
      highest[n * NV + v] = hn::Max(highest[n * NV + v], x);
      hn::Store(x, f32, at);
    }
  };
  std::size_t j = 0;
  for (; j + 2 <= keys; j += 2) {
    add(j, 0);
    add(j + 1, 1);
  }
  if (j < keys) add(j, 0);
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) tile_max[v] = hn::Max(highest[v], highest[NV + v]);
}

// Dot products to finished natural scores, in place. bias is null without an additive mask.
template <int NV>
HWY_NOINLINE void finish_scores(const Scoring& scoring, bool alibi, const Panel& panel, std::int64_t key0,
                                std::size_t keys, const float* bias, float* s, Vec (&tile_max)[NV]) {
  if (bias != nullptr && !alibi && !(scoring.softcap > 0)) {
    return add_bias<NV>(scoring.scale, keys, bias, s, tile_max);
  }
  const F f32;
  const Vec minus_inf = hn::Set(f32, -kInf);
  const Vec scale = hn::Set(f32, scoring.scale);
  const Vec cap = hn::Set(f32, scoring.softcap);
  HWY_ALIGN float slope[kWidth<NV>] = {};
  HWY_ALIGN float position[kWidth<NV>] = {};
  for (int r = 0; alibi && r < panel.rows; ++r) {
    slope[r] = panel.slope[r];
    position[r] = static_cast<float>(panel.position[r] - key0);
  }
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) tile_max[v] = minus_inf;
  for (std::size_t j = 0; j < keys; ++j) {
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) {
      float* const at = s + j * kWidth<NV> + v * kLanes;
      Vec x = hn::Mul(hn::Load(f32, at), scale);
      if (scoring.softcap > 0) x = hn::Mul(cap, tanh(hn::Div(x, cap)));
      if (alibi) {
        const Vec key = hn::Set(f32, static_cast<float>(j));
        const Vec distance = hn::Abs(hn::Sub(hn::Load(f32, position + v * kLanes), key));
        x = hn::NegMulAdd(hn::Load(f32, slope + v * kLanes), distance, x);
      }
      if (bias != nullptr) {
        const Vec b = hn::Load(f32, bias + j * kWidth<NV> + v * kLanes);
        // A mask of -inf hides the key even if its dot product is NaN.
        x = hn::IfThenElse(hn::Eq(b, minus_inf), minus_inf, hn::Add(x, b));
      }
      tile_max[v] = hn::Max(tile_max[v], x);
      hn::Store(x, f32, at);
    }
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
