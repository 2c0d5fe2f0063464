// What options do to a thread's two rows of a tile of scores, one option after the other: each a straight
// loop behind a branch that all threads take alike. Scores are in the unit that ScoreUnits describes, and
// -inf where the key is hidden.
#pragma once

#include "cuda/tile/accumulator.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::tile {

// cap_out * tanh(cap_in * s), three ways. Small ones by a polynomial of s^2, so that they keep all their
// bits: s + s^3 (c[0] + c[1] s^2 + ...), whose coefficients have cap_in in them. Three terms are good to 4e-8
// where |cap_in s| <= 0.35, which is cap_small, and five to 0.75, cap_middle (translate.cpp).
template <int kTerms>
__device__ inline float cap_small(float s, const float (&c)[kTerms]) {
  const float w = s * s;
  float p = c[kTerms - 1];
#pragma unroll
  for (int i = kTerms - 2; i >= 0; --i) p = fmaf(w, p, c[i]);
  return fmaf(s * w, p, s);
}
// The others, to 3e-7. What is far out is 1: e is inf or 0 there.
__device__ inline float cap_large(float s, const ScoreUnits& units) {
  const float e = ptx::exp2_approx(s * (units.cap_in * 2.0f * kLog2E));
  return fmaf(-2.0f * units.cap_out, ptx::inverse_approx(1.0f + e), units.cap_out);
}

template <int kGroups>
__device__ inline float largest_size(const float (&s)[kGroups][4]) {
  float most[4] = {};
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) most[e] = fmaxf(most[e], fabsf(s[n][e]));
  return fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
}

// kExact: for results of 32 bits.
template <bool kExact, int kGroups>
__device__ inline void cap(float (&s)[kGroups][4], const ScoreUnits& units) {
  const bool small = largest_size(s) <= units.cap_small;
  if (__all_sync(0xffffffffu, small)) {
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = cap_small(s[n][e], units.cap_3);
  } else {
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (kExact) {
          s[n][e] = units.cap_out * tanhf(units.cap_in * s[n][e]);
        } else {
          const float middle = cap_small(s[n][e], units.cap_5), large = cap_large(s[n][e], units);
          s[n][e] = ptx::select(fabsf(s[n][e]) <= units.cap_middle, middle, large);
        }
      }
  }
}

template <int kGroups>
__device__ inline void scale_all(float (&s)[kGroups][4], float factor) {
  const float both[2] = {factor, factor};
  scale_rows(s, both);
}

// ALiBi of row r: minus slope * |distance|. `distance`: from the thread's first key to the row's position.
template <int kGroups>
__device__ inline void add_alibi(float (&s)[kGroups][4], int r, float slope, float distance) {
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e)
      s[n][2 * r + e] = fmaf(-slope, fabsf(distance - static_cast<float>(8 * n + e)), s[n][2 * r + e]);
}

__device__ inline float alibi_slope(const Params& p, int batch, int head) {
  const PerHead& heads = p.per_head;
  if (heads.alibi_slopes == nullptr) return 0.0f;
  return heads.alibi_slopes[batch * heads.alibi_batch_stride + head * heads.alibi_head_stride];
}

// ALiBi alone, over scores that stay dot products. Where all keys of a tile are on one side of a row its bias
// is a straight line, which goes into the exponent: one step more for every score. Tiles on the diagonal are
// changed before.
struct AlibiScores {
  static constexpr bool kEveryTile = false;
  static constexpr bool kMaskTensor = false;
  static constexpr bool kRotates = true;
  using Factor = float;
  __device__ static float factor(const Params& p) { return p.units.factor; }

  float slope;  // times log2(e)

  __device__ void enter(const Params& p, int batch, int head) {
    slope = alibi_slope(p, batch, head) * kLog2E;
  }
  template <int kGroups>
  __device__ void apply(float (&s)[kGroups][4], const Params& p, int position, int key) const {
    const float own = slope * (p.units.bias * kLn2);
#pragma unroll
    for (int r = 0; r < 2; ++r) add_alibi(s, r, own, static_cast<float>(position + 8 * r - key));
  }
  // Counted from the tile's nearest key on, so that nothing cancels: what is added up has one sign.
  template <bool kBefore, int kKeys, class Rows>
  __device__ auto shift(const Rows& rows, int position, int key) const {
    constexpr int kLast = kKeys - 7;  // of the thread's keys
    float first[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int distance = kBefore ? position + 8 * r - key - kLast : key - position - 8 * r;
      first[r] = fmaf(-slope, static_cast<float>(distance), -rows.row_max[r]);
    }
    return [=, *this](int r, int column) {
      return fmaf(-slope, static_cast<float>(kBefore ? kLast - column : column), first[r]);
    };
  }
};

template <bool kMask>
struct FactorWith {
  using Type = float;
};
template <>
struct FactorWith<true> {
  using Type = MaskedFactor;
};

// Scores that are changed one by one before they become exponents. A policy like this is all that a kernel
// knows of it.
template <bool kAlibi, bool kMask>
struct ChangedScores {
  static constexpr bool kEveryTile = true;
  static constexpr bool kMaskTensor = kMask;
  static constexpr bool kRotates = false;
  using Factor = typename FactorWith<kMask>::Type;
  __device__ static float factor(const Params& p) { return p.units.factor; }

  float slope;  // in the scores' unit

  __device__ void enter(const Params& p, int batch, int head) {
    if (kAlibi) slope = alibi_slope(p, batch, head) * p.units.bias;
  }
  template <int kGroups>
  __device__ void apply(float (&s)[kGroups][4], const Params& p, int position, int key) const {
    if (p.units.first != 1.0f) scale_all(s, p.units.first);
    if (p.scoring.softcap > 0.0f) cap<false>(s, p.units);
    if (kAlibi && slope != 0.0f) {
#pragma unroll
      for (int r = 0; r < 2; ++r) add_alibi(s, r, slope, static_cast<float>(position + 8 * r - key));
    }
  }
  template <bool kBefore, int kKeys, class Rows>
  __device__ static auto shift(const Rows& rows, int, int) {
    return [&rows](int r, int) { return -rows.row_max[r]; };
  }
};

// Two neighbours of an additive mask.
template <bool kAllFinite>
__device__ inline void add_bias(float (&s)[4], int r, float2 add, const ScoreUnits& units) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float x = e == 0 ? add.x : add.y;
    float& score = s[2 * r + e];
    if constexpr (kAllFinite) {
      score = fmaf(x, units.bias, score);
    } else {  // hidden, whatever the score is
      const float sum = fmaf(fmaxf(x, units.least_bias), units.bias, score);
      score = x == minus_infinity() ? x : sum;
    }
  }
}

// Scale and softcap.
template <bool kExact, int kGroups>
__device__ inline void change_all(float (&s)[kGroups][4], const Params& p) {
  if (p.units.first != 1.0f) scale_all(s, p.units.first);
  if (p.scoring.softcap > 0.0f) cap<kExact>(s, p.units);
}

// A mask tensor's part of row r, read from where it is: f(element) is what is added, -inf where a key is
// hidden. Only keys from ... left - 1 are read, counted from the thread's first; those past the end are
// hidden by position.
template <int kGroups, class T, class F>
__device__ inline void add_mask(float (&s)[kGroups][4], int r, const Params& p, const T* first, int from,
                                int left, const F& f) {
  const long long stride = p.visibility.mask_strides[3];
#pragma unroll
  for (int n = 0; n < kGroups; ++n) {
    float2 add = make_float2(0.0f, 0.0f);
    if (8 * n >= from && 8 * n < left) add.x = f(first[8 * n * stride]);
    if (8 * n + 1 >= from && 8 * n + 1 < left) add.y = f(first[(8 * n + 1) * stride]);
    add_bias<false>(s[n], r, add, p.units);
  }
}

// Everything else of row r, in kernels that read mask tensors where they are. `key`: the thread's first.
// kLastKeys: the tensor may have no columns for the first keys.
template <bool kLastKeys = false, int kGroups>
__device__ inline void change_row(float (&s)[kGroups][4], int r, const Params& p, const OptionScores& row,
                                  const Band& band, int key) {
  const int position = row.query + band.offset;
  if (row.slope != 0.0f) add_alibi(s, r, row.slope * p.units.bias, static_cast<float>(position - key));
  const long long at = key * p.visibility.mask_strides[3];
  const int from = kLastKeys ? row.mask_from - key : -kFarAway, left = band.keys - key;
  switch (p.visibility.mask_kind) {
    case MaskTensorKind::none:
      break;
    case MaskTensorKind::boolean:
      add_mask(s, r, p, static_cast<const unsigned char*>(row.mask) + at, from, left,
               [](unsigned char x) { return x != 0 ? 0.0f : minus_infinity(); });
      break;
    case MaskTensorKind::additive_f32:
      add_mask(s, r, p, static_cast<const float*>(row.mask) + at, from, left, [](float x) { return x; });
      break;
    case MaskTensorKind::additive_f16:
      add_mask(s, r, p, static_cast<const __half*>(row.mask) + at, from, left,
               [](__half x) { return __half2float(x); });
      break;
    case MaskTensorKind::additive_bf16:
      add_mask(s, r, p, static_cast<const __nv_bfloat16*>(row.mask) + at, from, left,
               [](__nv_bfloat16 x) { return __bfloat162float(x); });
      break;
  }
  const int low = position - band.left - key, high = min(position + band.right + 1, band.keys) - key;
  if (low > 0 || high < 8 * kGroups) PlainScores::hide(s, r, low, high);
}

// What a mask tensor says of a granule (MaskTiles). Bit 0: there is something to see.
enum class MaskState : unsigned char {
  hidden = 0,  // every key, from every row
  open = 1,    // nothing hidden, nothing added
  mixed = 3,
  finite = 7,  // additive, and nothing is hidden or so low that it would overflow
};
inline constexpr unsigned kSeen = 1, kFinite = 4;

// The bits of row r's keys, a word for every 32; the thread's first key is the first's bit `shift`.
template <int kGroups>
__device__ inline void hide_by_bits(float (&s)[kGroups][4], int r, const unsigned (&words)[kGroups / 4],
                                    int shift) {
#pragma unroll
  for (int w = 0; w < kGroups / 4; ++w) {
    const unsigned bits = words[w] >> shift;
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if ((bits & 1u << (8 * n + e)) == 0) s[4 * w + n][2 * r + e] = minus_infinity();
  }
}

}  // namespace tessera::cuda::tile
