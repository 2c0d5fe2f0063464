// Keys in lanes: up to four rows of a few dimensions each, where dimensions or rows in lanes would leave most
// of every vector empty. A tile of K and V is turned into columns once; then each row works on the keys that
// it sees.
//
//   scores   s[key...]  = sum over d of q[d] * Kt[d][key...]
//   output   o[d]      += sum over lanes of P[key...] * Vt[d][key...]
#if defined(TESSERA_CPU_TINY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_TINY_INL
#undef TESSERA_CPU_TINY_INL
#else
#define TESSERA_CPU_TINY_INL
#endif

#include "cpu/feed-inl.hpp"
#include "cpu/schedule.hpp"
#include "cpu/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kTinyDim = 8;  // at most
inline constexpr std::size_t kColumn = 128;  // floats: a tile's keys, in whole vectors
static_assert(kColumn >= kMaxKeyTile && kColumn % kLanes == 0);

// `keys` rows of `length` elements each to columns; what is left of the last vector becomes zero.
HWY_INLINE void to_columns(FloatTile tile, std::size_t keys, std::size_t length, float* columns) {
  transpose(tile.data, tile.stride, keys, length, columns, kColumn);
  const std::size_t whole = (keys + kLanes - 1) / kLanes * kLanes;
  for (std::size_t d = 0; d < length; ++d)
    std::fill(columns + d * kColumn + keys, columns + d * kColumn + whole, 0.0f);
}

// One row, and keys from ... to of the columns.
struct TinyRow {
  const float* query;
  const float* key;    // [dim][kColumn]
  const float* value;  // [value_dim][kColumn]
  std::size_t dim, value_dim;
  std::size_t from, to;
  float* s;  // [kColumn]
  float *max, *sum, *output;
};

// Scores of all vectors that hold visible keys, other lanes -inf. Returns the highest.
HWY_INLINE float score_tiny(const TinyRow& row, std::size_t begin) {
  const F f32;
  const Vec minus_inf = hn::Set(f32, -kInf);
  const Vec lanes = hn::Iota(f32, 0.0f);
  Vec highest = minus_inf;
  for (std::size_t j = begin; j < row.to; j += kLanes) {
    Vec x = hn::Zero(f32);
    for (std::size_t d = 0; d < row.dim; ++d) {
      x = hn::MulAdd(hn::Set(f32, row.query[d]), hn::Load(f32, row.key + d * kColumn + j), x);
    }
    if (j < row.from || j + kLanes > row.to) {
      const Vec key = hn::Add(lanes, hn::Set(f32, static_cast<float>(j)));
      const auto visible = hn::And(hn::Ge(key, hn::Set(f32, static_cast<float>(row.from))),
                                   hn::Lt(key, hn::Set(f32, static_cast<float>(row.to))));
      x = hn::IfThenElse(visible, x, minus_inf);
    }
    highest = hn::Max(highest, x);
    hn::Store(x, f32, row.s + j);
  }
  return hn::GetLane(hn::MaxOfLanes(f32, highest));
}

// kCareful: V holds inf or NaN; weights come from weigh<.., true>, see output_lanes_careful.
template <bool kCareful>
HWY_INLINE Vec weighted_sum(const float* column, const float* p, std::size_t begin, std::size_t end) {
  const F f32;
  const Vec zero = hn::Zero(f32);
  Vec acc = zero;
  for (std::size_t j = begin; j < end; j += kLanes) {
    const Vec value = hn::Load(f32, column + j), weight = hn::Load(f32, p + j);
    if constexpr (kCareful) {
      const auto finite = hn::Eq(hn::Mul(value, zero), zero);
      const Vec counted = hn::MulAdd(value, hn::IfThenElseZero(hn::Gt(weight, zero), weight), acc);
      const Vec whole = hn::IfThenElse(hn::Eq(weight, zero), acc, hn::Add(acc, value));
      acc = hn::IfThenElse(finite, counted, whole);
    } else {
      acc = hn::MulAdd(value, weight, acc);
    }
  }
  return hn::SumOfLanes(f32, acc);
}

template <bool kCareful>
HWY_NOINLINE void step_tiny_row(const TinyRow& row, float factor) {
  const F f32;
  const Vec scale = hn::Set(f32, factor);
  const std::size_t begin = row.from / kLanes * kLanes;
  const float tile_max = score_tiny(row, begin);
  const Vec old_max = hn::Set(f32, *row.max);
  if (tile_max > *row.max) *row.max = tile_max;
  const Vec reference[1] = {usable_max(hn::Set(f32, *row.max))};
  const Vec alpha = exp2_nonpositive(hn::Mul(hn::Sub(old_max, reference[0]), scale));
  Vec sum[1] = {hn::Zero(f32)};
  weigh<1, kCareful>(row.s + begin, (row.to - begin + kLanes - 1) / kLanes, scale, reference, sum);
  *row.sum = hn::GetLane(hn::MulAdd(hn::Set(f32, *row.sum), alpha, hn::SumOfLanes(f32, sum[0])));
  for (std::size_t d = 0; d < row.value_dim; ++d) {
    const Vec added = weighted_sum<kCareful>(row.value + d * kColumn, row.s, begin, row.to);
    row.output[d] = hn::GetLane(grow_careful(hn::Set(f32, row.output[d]), alpha, added));
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
