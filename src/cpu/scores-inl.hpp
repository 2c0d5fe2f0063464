// Everything that happens to a score between Q*K^T and the softmax: scale, softcap, ALiBi, mask tensor,
// band. Scores lie as s[key][row], rows in lanes, whichever kernel made them.
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

template <class T>
HWY_INLINE float mask_bias(const T* data, std::int64_t at) {
  return to_float(data[at]);
}
HWY_INLINE float mask_bias(const std::uint8_t* data, std::int64_t at) { return data[at] != 0 ? 0.0f : -kInf; }

// The mask tensor's part of this panel and tile, transposed to bias[key][row].
template <int NV, class T>
HWY_INLINE void gather_bias(const core::MaskTensor& mask, const Panel& panel, std::int64_t key0,
                            std::size_t keys, float* bias) {
  const T* const data = static_cast<const T*>(mask.data);
  const std::int64_t stride = mask.strides[3];
  for (int r = 0; r < panel.rows; ++r) {
    std::int64_t at = panel.mask_offset[r] + key0 * stride;
    // Rows that share a mask row (heads of a group, a broadcast query) copy instead of gathering again.
    if (r > 0 && panel.mask_offset[r] == panel.mask_offset[r - 1]) {
      for (std::size_t j = 0; j < keys; ++j) bias[j * kWidth<NV> + r] = bias[j * kWidth<NV> + r - 1];
      continue;
    }
    for (std::size_t j = 0; j < keys; ++j, at += stride) bias[j * kWidth<NV> + r] = mask_bias(data, at);
  }
  for (std::size_t j = 0; j < keys; ++j) {
    std::fill(bias + j * kWidth<NV> + panel.rows, bias + (j + 1) * kWidth<NV>, 0.0f);
  }
}

template <int NV>
HWY_NOINLINE void load_bias(const core::MaskTensor& mask, const Panel& panel, std::int64_t key0,
                            std::size_t keys, float* bias) {
  if (mask.kind == core::MaskKind::boolean) {
    gather_bias<NV, std::uint8_t>(mask, panel, key0, keys, bias);
  } else if (mask.dtype == TESSERA_F32) {
    gather_bias<NV, float>(mask, panel, key0, keys, bias);
  } else if (mask.dtype == TESSERA_F16) {
    gather_bias<NV, F16>(mask, panel, key0, keys, bias);
  } else {
    gather_bias<NV, BF16>(mask, panel, key0, keys, bias);
  }
}

// Dot products to finished natural scores, in place. bias is null without a mask tensor.
template <int NV>
HWY_NOINLINE void finish_scores(const Scoring& scoring, bool alibi, const Panel& panel, std::int64_t key0,
                                std::size_t keys, const float* bias, float* s, Vec (&tile_max)[NV]) {
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
