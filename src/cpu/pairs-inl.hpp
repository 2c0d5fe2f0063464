// Rows in lanes for bf16 as it is: the matrix products of lanes-inl.hpp with two products per step, for CPUs
// whose instruction adds the products of two bf16 pairs to a float (AVX512-BF16: vdpbf16ps). 32 bits hold a
// pair:
//
//   Q   two dimensions of a row        Qt[d/2][row]     transposed into the panel
//   K   two dimensions of a key        K [key][d/2]     the caller's rows as they are, made contiguous
//   P   two keys of a row, rounded     P [key/2][row]   written over the scores
//   V   two keys of a dimension        V [key/2][d]     two rows, interleaved
//
// An odd dimension or key has a zero beside it. Pairs of keys are counted from the tile's border, so what
// stands beside a key follows from its number alone; a panel that begins in the middle of a pair hides the
// first half.
//
// The instruction is two fused multiply-adds in a row, the upper halves' first, each rounded to nearest; but
// it flushes subnormal numbers to zero, going in and coming out. Where K, Q or V hold a number below kLeast
// other than zero, the two multiply-adds are done as such: no bit differs but where something would have been
// flushed.
#if defined(TESSERA_CPU_PAIRS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_PAIRS_INL
#undef TESSERA_CPU_PAIRS_INL
#else
#define TESSERA_CPU_PAIRS_INL
#endif

#include "cpu/attend-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

using Pairs = hn::RebindToUnsigned<F>;
using PairVec = hn::Vec<Pairs>;
using Halves = hn::Repartition<std::uint16_t, F>;

// 2^-50, as bf16. Products of two such numbers and sums of them that come out below 2^-126 are less than a
// rounding of one product away from zero; and a P * V below it is nothing beside the row's largest weight,
// which is 1.
inline constexpr std::uint16_t kLeast = (127 - 50) << 7;

HWY_INLINE Vec upper_half(PairVec pair) {
  return hn::BitCast(F(), hn::And(pair, hn::Set(Pairs(), 0xffff0000u)));
}
HWY_INLINE Vec lower_half(PairVec pair) { return hn::BitCast(F(), hn::ShiftLeft<16>(pair)); }

struct PairTerms {
  using Element = std::uint32_t;
  using Operand = PairVec;
  static HWY_INLINE PairVec load(const std::uint32_t* p) { return hn::Load(Pairs(), p); }
  static HWY_INLINE PairVec repeat(std::uint32_t x) { return hn::Set(Pairs(), x); }
};

// Without the instruction, and without its flushing.
struct ExactPairs : PairTerms {
  static HWY_INLINE Vec add(PairVec a, PairVec b, Vec sum) {
    sum = hn::MulAdd(upper_half(a), upper_half(b), sum);
    return hn::MulAdd(lower_half(a), lower_half(b), sum);
  }

  static HWY_INLINE PairVec rounded(Vec v) {
    const Pairs u32;
    const PairVec bits = hn::BitCast(u32, v);
    const PairVec odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1u));
    const PairVec nearest = hn::Add(bits, hn::Add(odd, hn::Set(u32, 0x7fffu)));
    const PairVec quiet_nan = hn::Or(bits, hn::Set(u32, 0x400000u));
    return hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), quiet_nan, nearest);
  }
  static HWY_INLINE PairVec round(Vec lower, Vec upper) {
    return hn::Or(hn::ShiftRight<16>(rounded(lower)), hn::And(rounded(upper), hn::Set(Pairs(), 0xffff0000u)));
  }
};

// Looks at bf16 numbers as they pass.
class Watch {
 public:
  HWY_INLINE Watch() : highest_(hn::Zero(Halves())), lowest_(hn::Set(Halves(), 0xffff)) {}
  HWY_INLINE void see(PairVec pairs) {
    const Halves u16;
    const auto magnitude = hn::And(hn::BitCast(u16, pairs), hn::Set(u16, 0x7fff));
    highest_ = hn::Max(highest_, magnitude);
    lowest_ = hn::Min(lowest_, hn::Sub(magnitude, hn::Set(u16, 1)));  // zero becomes the highest
  }
  HWY_INLINE unsigned seen() const {
    const Halves u16;
    const auto least = hn::Set(u16, kLeast - 1), infinity = hn::Set(u16, 0x7f80);
    const bool usual = hn::AllTrue(u16, hn::Eq(hn::Max(lowest_, least), lowest_));
    const bool finite = hn::AllFalse(u16, hn::Eq(hn::Max(highest_, infinity), highest_));
    return (usual ? kNothingSpecial : kTiny) | (finite ? kNothingSpecial : kNotFinite);
  }

 private:
  hn::Vec<Halves> highest_, lowest_;
};

// Up to `room` elements of a row that has `left`, zeros after them; never reads past the row.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const std::uint16_t* from, std::size_t left) {
  const std::size_t room = hn::Lanes(d);
  if (left >= room) return hn::LoadU(d, from);
  HWY_ALIGN std::uint16_t part[HWY_LANES(std::uint16_t)] = {};
  std::copy(from, from + left, part);
  return hn::Load(d, part);
}

// A RowConverter: K rows made contiguous.
inline HWY_NOINLINE unsigned copy_pairs(const char* const* from, std::size_t rows, std::size_t length,
                                        float* to, std::size_t to_stride) {
  const Halves u16;
  Watch watch;
  for (std::size_t j = 0; j < rows; ++j, to += to_stride) {
    const auto* const row = reinterpret_cast<const std::uint16_t*>(from[j]);
    for (std::size_t d = 0; d < length; d += 2 * kLanes) {
      const PairVec x = hn::BitCast(Pairs(), load_some(u16, row + d, length - d));
      watch.see(x);
      hn::Store(hn::BitCast(F(), x), F(), to + d / 2);
    }
  }
  return watch.seen();
}

// A RowConverter: V rows interleaved two by two; to_stride is that of one row, half of what a pair takes.
inline HWY_NOINLINE unsigned interleave_pairs(const char* const* from, std::size_t rows, std::size_t length,
                                              float* to, std::size_t to_stride) {
  const hn::Rebind<std::uint16_t, F> u16;
  Watch watch;
  for (std::size_t j = 0; j < rows; j += 2, to += 2 * to_stride) {
    const auto* const even = reinterpret_cast<const std::uint16_t*>(from[j]);
    const auto* const odd = j + 1 < rows ? reinterpret_cast<const std::uint16_t*>(from[j + 1]) : nullptr;
    for (std::size_t d = 0; d < length; d += kLanes) {
      PairVec x = hn::PromoteTo(Pairs(), load_some(u16, even + d, length - d));
      if (odd != nullptr) {
        const PairVec upper = hn::PromoteTo(Pairs(), load_some(u16, odd + d, length - d));
        x = hn::Or(x, hn::ShiftLeft<16>(upper));
      }
      watch.see(x);
      hn::Store(hn::BitCast(F(), x), F(), to + d);
    }
  }
  return watch.seen();
}

// A panel's query, bf16 numbers as floats, to pairs of dimensions in the same place.
inline HWY_NOINLINE void pair_query(std::size_t dim, std::size_t width, Panel* panel) {
  const F f32;
  const Pairs u32;
  Watch watch;
  for (std::size_t d = 0; d < dim; d += 2) {
    for (std::size_t r = 0; r < width; r += kLanes) {
      const float* const at = panel->query + d * width + r;
      const Vec upper = d + 1 < dim ? hn::Load(f32, at + width) : hn::Zero(f32);
      const PairVec x =
          hn::Or(hn::ShiftRight<16>(hn::BitCast(u32, hn::Load(f32, at))), hn::BitCast(u32, upper));
      watch.see(x);
      hn::Store(hn::BitCast(f32, x), f32, panel->query + d / 2 * width + r);
    }
  }
  panel->tiny_query = (watch.seen() & kTiny) != 0;
}

HWY_INLINE const std::uint32_t* as_pairs(const float* p) { return reinterpret_cast<const std::uint32_t*>(p); }

// As score_lanes.
template <class Terms, int NV>
HWY_INLINE void score_pairs(Feed& feed, std::size_t at, std::size_t keys, const Panel& panel, std::size_t dim,
                            float* s, Vec (&tile_max)[NV]) {
  constexpr std::size_t kStep = kBlock<NV>;
  static_assert(kStep % 2 == 0, "rows are converted two by two");
  const F f32;
  const std::size_t steps = (dim + 1) / 2, stride = feed.key().stride;
  const std::uint32_t* const k = as_pairs(feed.key().from(at).data);
  const std::uint32_t* const qt = as_pairs(panel.query);
  HWY_ALIGN float max[kWidth<NV>];
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) hn::Store(hn::Set(f32, -kInf), f32, max + v * kLanes);
  std::size_t j = 0;
  for (; j + kStep <= keys; j += kStep) {
    feed.need(at + j + kStep);
    feed.fetch_ahead();
    const auto block = feed.tiny_key() || panel.tiny_query ? score_block<ExactPairs, kStep, NV>
                                                           : score_block<Terms, kStep, NV>;
    block(k + j * stride, stride, qt, steps, s + j * kWidth<NV>, max);
  }
  if (j < keys) {
    feed.need_all();
    const std::uint32_t* const rest = k + j * stride;
    if (feed.tiny_key() || panel.tiny_query) {
      score_rest<ExactPairs, kStep - 1, NV>(keys - j, rest, stride, qt, steps, s + j * kWidth<NV>, max);
    } else {
      score_rest<Terms, kStep - 1, NV>(keys - j, rest, stride, qt, steps, s + j * kWidth<NV>, max);
    }
  }
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) tile_max[v] = hn::Load(f32, max + v * kLanes);
}

// As weigh_keys, but the weights are written rounded, two by two. The sum is that of the weights before
// rounding: lse is a float, and the rounding of the weights must not be seen in it.
template <class Terms, int NV, int KB, bool kMark>
HWY_INLINE void weigh_pair(const float* s, std::uint32_t* to, Vec factor, const Vec (&max)[NV],
                           Vec (&sum)[NV]) {
  const F f32;
  const Vec zero = hn::Zero(f32);
  Vec p[KB * NV];
  TESSERA_UNROLL
  for (int i = 0; i < KB * NV; ++i) {
    p[i] = hn::Mul(hn::Sub(hn::Load(f32, s + i * kLanes), max[i % NV]), factor);
  }
  exp2_nonpositive(p);
  TESSERA_UNROLL
  for (int i = 0; i < KB * NV; ++i) {
    sum[i % NV] = hn::Add(sum[i % NV], p[i]);
    if constexpr (kMark) {
      const Vec marked = hn::IfThenElse(hn::Eq(p[i], zero), hn::Set(f32, kUnderflowed), p[i]);
      p[i] = hn::IfThenZeroElse(hn::Eq(hn::Load(f32, s + i * kLanes), hn::Set(f32, -kInf)), marked);
    }
  }
  TESSERA_UNROLL
  for (int i = 0; i < (KB + 1) / 2 * NV; ++i) {
    const int lower = i / NV * 2 * NV + i % NV, upper = lower + NV;
    hn::Store(Terms::round(p[lower], upper < KB * NV ? p[upper] : zero), Pairs(), to + i * kLanes);
  }
}

// Scores to weights in pairs, in the same place: a pair is written where its keys' scores, or those of keys
// before them, were.
template <class Terms, int NV, bool kMark>
HWY_INLINE void weigh_pairs(float* s, std::size_t keys, Vec factor, const Vec (&max)[NV], Vec (&sum)[NV]) {
  constexpr int KB = NV < 2 ? 4 : 2;
  auto* const to = reinterpret_cast<std::uint32_t*>(s);
  constexpr std::size_t kRow = kWidth<NV>;
  std::size_t j = 0;
  for (; j + KB <= keys; j += KB) {
    weigh_pair<Terms, NV, KB, kMark>(s + j * kRow, to + j / 2 * kRow, factor, max, sum);
  }
  for (; j + 2 <= keys; j += 2) {
    weigh_pair<Terms, NV, 2, kMark>(s + j * kRow, to + j / 2 * kRow, factor, max, sum);
  }
  if (j < keys) weigh_pair<Terms, NV, 1, kMark>(s + j * kRow, to + j / 2 * kRow, factor, max, sum);
}

HWY_INLINE bool finite_bf16(std::uint32_t bits) { return (bits & 0x7f80u) != 0x7f80u; }

// As output_lanes_careful: inf and NaN are taken out of the dot products and added where the weight says so.
template <class Terms, int NV>
HWY_NOINLINE void output_pairs_careful(const std::uint32_t* v_tile, std::size_t stride, std::size_t pairs,
                                       const std::uint32_t* p, const float* alpha, std::size_t value_dim,
                                       float* ot) {
  const F f32;
  const Vec zero = hn::Zero(f32);
  for (std::size_t d = 0; d < value_dim; ++d) {
    for (int v = 0; v < NV; ++v) {
      Vec acc = zero;
      for (std::size_t j = 0; j < pairs; ++j) {
        const PairVec weights = hn::Load(Pairs(), p + j * kWidth<NV> + v * kLanes);
        const Vec lower = lower_half(weights), upper = upper_half(weights);
        const std::uint32_t value = v_tile[j * stride + d];
        const bool lower_finite = finite_bf16(value), upper_finite = finite_bf16(value >> 16);
        const std::uint32_t kept = (lower_finite ? 0xffffu : 0u) | (upper_finite ? 0xffff0000u : 0u);
        // The mark of an underflow is negative, and counts as zero here.
        const PairVec counted = ExactPairs::round(hn::IfThenZeroElse(hn::Lt(lower, zero), lower),
                                                  hn::IfThenZeroElse(hn::Lt(upper, zero), upper));
        acc = Terms::add(Terms::repeat(value & kept), counted, acc);
        if (!lower_finite) {
          const Vec bad = lower_half(Terms::repeat(value));
          acc = hn::IfThenElse(hn::Eq(lower, zero), acc, hn::Add(acc, bad));
        }
        if (!upper_finite) {
          const Vec bad = upper_half(Terms::repeat(value));
          acc = hn::IfThenElse(hn::Eq(upper, zero), acc, hn::Add(acc, bad));
        }
      }
      float* const at = ot + d * kWidth<NV> + v * kLanes;
      hn::Store(grow_careful(hn::Load(f32, at), hn::Load(f32, alpha + v * kLanes), acc), f32, at);
    }
  }
}

// As step_lanes.
template <class Terms, int NV>
HWY_NOINLINE void step_pairs(const ItemContext& c, const Panel& panel, Range range, std::size_t at,
                             Feed& feed) {
  const std::size_t value_dim = static_cast<std::size_t>(c.problem.value_dim);
  MaskLook look = look_at_mask<NV>(c.problem, panel, range, c.work.bias);
  if (look.begin == look.end) return;
  const std::size_t begin =
      look.begin - look.begin % 2;  // a pair stays whole, its hidden half is hidden below
  look.open &= look.bits == nullptr || begin == look.begin;
  range = {range.key0 + static_cast<std::int64_t>(begin), look.end - begin};
  at += begin;
  const std::size_t pairs = (range.keys + 1) / 2;
  const Vec factor = hn::Set(F(), c.scoring.factor);
  float* const s = c.work.scores;
  HWY_ALIGN float alpha[kWidth<NV>];
  Vec tile_max[NV], reference[NV], tile_sum[NV];
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) tile_sum[v] = hn::Zero(F());
  score_pairs<Terms, NV>(feed, at, range.keys, panel, static_cast<std::size_t>(c.problem.dim), s, tile_max);
  adjust_scores<NV>(c, panel, range, look, begin, s, tile_max);
  feed.need_all();
  raise_max<NV>(tile_max, factor, panel.max, alpha, reference);
  const std::uint32_t *const p = as_pairs(s), *const v = as_pairs(feed.value().from(at).data);
  const std::size_t stride = 2 * feed.value().stride;
  if (feed.careful()) {
    weigh_pairs<Terms, NV, true>(s, range.keys, factor, reference, tile_sum);
    const auto careful =
        feed.tiny_value() ? output_pairs_careful<ExactPairs, NV> : output_pairs_careful<Terms, NV>;
    careful(v, stride, pairs, p, alpha, value_dim, panel.output);
  } else {
    weigh_pairs<Terms, NV, false>(s, range.keys, factor, reference, tile_sum);
    if (feed.tiny_value()) {
      output_lanes<ExactPairs, NV>(feed, v, stride, pairs, p, alpha, value_dim, panel.output);
    } else {
      output_lanes<Terms, NV>(feed, v, stride, pairs, p, alpha, value_dim, panel.output);
    }
  }
  grow_sum<NV>(tile_sum, alpha, panel.sum);
}

// The other FloatTiles. Terms: ExactPairs, or what has its bits and is faster.
template <class Terms>
struct PairTiles {
  static constexpr std::int64_t kKeysTogether = 2;

  PairTiles(const ItemContext& context, const Item& item, int panels)
      : c(context),
        k(c.problem.kv, c.problem.kv.key, item, sizeof(BF16)),
        v(c.problem.kv, c.problem.kv.value, item, sizeof(BF16)),
        feed(feed_rows<BF16>(k, c.problem.dim, c.work.key,
                             static_cast<std::size_t>(padded((c.problem.dim + 1) / 2)), copy_pairs),
             feed_rows<BF16>(v, c.problem.value_dim, c.work.value, c.work.output_stride / 2,
                             interleave_pairs)) {
    for (int i = 0; i < panels; ++i) {
      Panel& panel = c.work.panels[i];
      if (panel.kind == PanelKind::few) continue;
      pair_query(static_cast<std::size_t>(c.problem.dim), width_of(panel.kind), &panel);
    }
  }

  HWY_INLINE void step(const Panel& panel, Range range) {
    const std::size_t at = static_cast<std::size_t>(range.key0 - feed.first());
    if (panel.kind == PanelKind::wide) {
      step_pairs<Terms, kWide>(c, panel, range, at, feed);
    } else if (panel.kind == PanelKind::narrow) {
      step_pairs<Terms, kNarrow>(c, panel, range, at, feed);
    } else {
      const BF16 *keys[kMaxKeyTile], *values[kMaxKeyTile];
      k.put(range.key0, static_cast<std::int64_t>(range.keys), keys);
      v.put(range.key0, static_cast<std::int64_t>(range.keys), values);
      step_few_any(c, panel, FewTile<BF16>{{keys, range.keys, 1}, {values, range.keys, 1}, {range.key0}});
    }
  }

  const ItemContext& c;
  Rows k, v;
  Feed feed;
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
