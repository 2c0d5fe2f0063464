// An attention kernel for judging the judges: float32, tiles of keys with an online softmax and fused
// multiply-adds, so its roundings are not those of the yardstick. Told to, it makes one of the mistakes
// real kernels make, and the gates must notice.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"

namespace tessera::fake {

enum class Mistake {
  none,
  causal_off_by_one,  // sees one key too many
  dropped_last_key,   // loop ends one short
  scale_off_by_one_percent,
  missing_rescale,      // accumulator not rescaled when the maximum grows
  missing_sum_rescale,  // the sum not rescaled
  wrong_head_group,     // h % kv_heads instead of h / group
  top_left_for_bottom_right,
  window_one_too_wide,
  ignores_softcap,
  ignores_alibi,
  ignores_sink,
  ignores_key_lengths,
  ignores_mask,
  mask_of_first_head,  // broadcasts a mask dimension that is real
  lse_in_base_two,
  lse_without_maximum,
  no_maximum,               // exp of raw scores overflows
  hidden_value_times_zero,  // 0 * NaN
  adds_minus_infinity,      // NaN + -inf: an additive -inf must hide the key instead
  empty_row_divides_by_zero,
  half_precision_sum,      // accumulates P V in f16
  half_precision_weights,  // rounds P to f16 although the output is f32
  flushes_subnormals,
  writes_past_the_end,
  writes_into_a_gap,
  writes_an_input,
  skips_last_row,
  skips_last_lse,
  differs_every_run,
  differs_by_threads,
};

struct Row {
  const tessera_attention& p;
  const oracle::Sizes n;
  Mistake mistake;
  std::int64_t b, h, i;

  bool made(Mistake m) const { return mistake == m; }
  std::int64_t kv_head() const {
    return made(Mistake::wrong_head_group) ? h % n.kv_heads : h / (n.heads / n.kv_heads);
  }

  bool visible(std::int64_t j) const {
    tessera_attention seen = p;
    if (made(Mistake::causal_off_by_one) && seen.mask.right >= 0) seen.mask.right += 1;
    if (made(Mistake::window_one_too_wide) && seen.mask.left >= 0) seen.mask.left += 1;
    if (made(Mistake::top_left_for_bottom_right) && seen.mask.align != TESSERA_ALIGN_NONE) {
      seen.mask.align = TESSERA_ALIGN_TOP_LEFT;
    }
    if (made(Mistake::ignores_key_lengths)) seen.key_lengths.data = nullptr;
    const bool adds = made(Mistake::adds_minus_infinity) && oracle::has_additive_mask(p);
    if (adds || made(Mistake::ignores_mask)) seen.mask.tensor.data = nullptr;
    if (made(Mistake::dropped_last_key) && j == p.key.shape[2] - 1) return false;
    return oracle::visible(seen, b, made(Mistake::mask_of_first_head) ? 0 : h, i, j);
  }

  float score(std::int64_t j) const {
    float scale = p.scale == 0 ? 1 / std::sqrt(static_cast<float>(n.dim)) : p.scale;
    if (made(Mistake::scale_off_by_one_percent)) scale *= 1.01f;
    const std::int64_t q = oracle::row_start(p.query, b, h, i), k = oracle::row_start(p.key, b, kv_head(), j);
    float lanes[4] = {0, 0, 0, 0};
    for (std::int64_t d = 0; d < n.dim; ++d) {
      const auto x = static_cast<float>(oracle::load(p.query.data, p.query.dtype, q + d)) * scale;
      lanes[d % 4] =
          std::fma(x, static_cast<float>(oracle::load(p.key.data, p.key.dtype, k + d)), lanes[d % 4]);
    }
    float s = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    if (p.softcap > 0 && !made(Mistake::ignores_softcap)) s = p.softcap * std::tanh(s / p.softcap);
    if (!made(Mistake::ignores_alibi)) {
      const auto distance = static_cast<float>(std::llabs(oracle::position(p, b, i) - j));
      s = std::fma(-oracle::alibi_slope(p, b, h), distance, s);
    }
    if (oracle::has_additive_mask(p) && !made(Mistake::ignores_mask)) {
      const tessera_tensor& t = p.mask.tensor;
      s += static_cast<float>(oracle::load(t.data, t.dtype, oracle::broadcast_index(t, b, h, i, j)));
    }
    return s;
  }

  void run(float wobble) const {
    constexpr std::int64_t kTile = 16;
    const float sink = made(Mistake::ignores_sink) ? -INFINITY : oracle::sink(p, h);
    float maximum = sink, sum = sink == -INFINITY ? 0.0f : 1.0f;
    bool undefined = false;
    std::vector<float> out(static_cast<std::size_t>(n.value_dim), 0.0f);
    for (std::int64_t first = 0; first < p.key.shape[2]; first += kTile) {
      float s[kTile], tile_maximum = maximum;
      const std::int64_t count = std::min(kTile, p.key.shape[2] - first);
      for (std::int64_t t = 0; t < count; ++t) {
        s[t] = visible(first + t) ? score(first + t) : -INFINITY;
        undefined = undefined || std::isnan(s[t]) || s[t] == INFINITY;
        tile_maximum = std::max(tile_maximum, s[t]);
      }
      if (tile_maximum == -INFINITY && !made(Mistake::hidden_value_times_zero)) continue;
      if (made(Mistake::no_maximum)) tile_maximum = 0;
      const float rescale = maximum == -INFINITY ? 0.0f : std::exp(maximum - tile_maximum);
      maximum = tile_maximum;
      if (!made(Mistake::missing_sum_rescale)) sum *= rescale;
      if (!made(Mistake::missing_rescale)) {
        for (float& o : out) o *= rescale;
      }
      for (std::int64_t t = 0; t < count; ++t) {
        if (s[t] == -INFINITY && !made(Mistake::hidden_value_times_zero)) continue;
        add(s[t] == -INFINITY ? 0.0f : std::exp(s[t] - maximum), first + t, &sum, &out);
      }
    }
    finish(maximum, sum, undefined, wobble, &out);
  }

  void add(float weight, std::int64_t j, float* sum, std::vector<float>* out) const {
    *sum += weight;
    if (made(Mistake::half_precision_weights)) {
      weight = static_cast<float>(oracle::round_to(TESSERA_F16, static_cast<double>(weight)));
    }
    const std::int64_t v = oracle::row_start(p.value, b, kv_head(), j);
    for (std::int64_t d = 0; d < n.value_dim; ++d) {
      float& o = (*out)[static_cast<std::size_t>(d)];
      auto value = static_cast<float>(oracle::load(p.value.data, p.value.dtype, v + d));
      if (made(Mistake::flushes_subnormals) && std::fabs(value) < 0x1p-126f) value = 0;
      o = std::fma(weight, value, o);
      if (made(Mistake::half_precision_sum)) {
        o = static_cast<float>(oracle::round_to(TESSERA_F16, static_cast<double>(o)));
      }
    }
  }

  void finish(float maximum, float sum, bool undefined, float wobble, std::vector<float>* out) const {
    const bool empty = sum == 0 && !made(Mistake::empty_row_divides_by_zero);
    float lse = undefined ? NAN : empty ? -INFINITY : maximum + std::log(sum);
    if (made(Mistake::lse_in_base_two)) lse *= 1.44269504f;
    if (made(Mistake::lse_without_maximum)) lse = std::log(sum);
    const bool last = b == n.batch - 1 && h == n.heads - 1 && i == n.queries - 1;
    if (p.lse.data != nullptr && !(last && made(Mistake::skips_last_lse))) {
      static_cast<float*>(p.lse.data)[b * p.lse.strides[0] + h * p.lse.strides[1] + i * p.lse.strides[2]] =
          lse;
    }
    if (last && made(Mistake::skips_last_row)) return;
    const std::int64_t at = oracle::row_start(p.output, b, h, i);
    const float inverse = empty ? 0.0f : 1 / sum;
    for (std::int64_t d = 0; d < n.value_dim; ++d) {
      double o =
          undefined ? NAN : static_cast<double>((*out)[static_cast<std::size_t>(d)] * inverse * wobble);
      oracle::store(p.output.data, p.output.dtype, at + d, o);
    }
    if (last && made(Mistake::writes_past_the_end))
      oracle::store(p.output.data, p.output.dtype, at + n.value_dim, 0);
  }
};

inline std::string attend(const tessera_attention& p, const tessera_device& device, Mistake mistake) {
  static std::atomic<int> runs{0};
  const oracle::Sizes n(p);
  float wobble = 1;
  if (mistake == Mistake::differs_every_run) wobble += 0x1p-23f * static_cast<float>(runs++ % 2);
  if (mistake == Mistake::differs_by_threads) wobble += 0x1p-23f * static_cast<float>(device.threads == 1);
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t h = 0; h < n.heads; ++h) {
      for (std::int64_t i = 0; i < n.queries; ++i) Row{p, n, mistake, b, h, i}.run(wobble);
    }
  }
  // In a padded layout the elements just behind a row belong to nobody.
  if (mistake == Mistake::writes_into_a_gap) oracle::store(p.output.data, p.output.dtype, n.value_dim, 0);
  if (mistake == Mistake::writes_an_input) {
    oracle::store(p.key.data, p.key.dtype, 0, oracle::load(p.key.data, p.key.dtype, 0) + 1);
  }
  return "";
}

}  // namespace tessera::fake
