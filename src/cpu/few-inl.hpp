// Dimensions in lanes: the matrix products for one to four rows (decode). K and V are read once, straight
// from the caller's memory in their own type; the work is bound by that reading, so each product fetches
// ahead for the next one.
//
//   scores   acc[key][row] += K[key][d...] * Q[row][d...]      then added up across lanes, four at a time
//   output   acc[row][d...] += P[key][row] * V[key][d...]
//
// A length that is no multiple of the vector ends in one more vector that overlaps the one before it, so
// nothing outside the row is touched. Q is zero in the overlap; O keeps that vector in a slot of its own.
#if defined(TESSERA_CPU_FEW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_FEW_INL
#undef TESSERA_CPU_FEW_INL
#else
#define TESSERA_CPU_FEW_INL
#endif

#include "cpu/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

inline constexpr std::size_t kFewWidth = kWidth<kFewVectors>;
inline constexpr std::size_t kLineBytes = 64;

// A row of `length` elements as vectors.
struct Spans {
  explicit Spans(std::size_t elements)
      : length(elements), whole(elements / kLanes), vectors((elements + kLanes - 1) / kLanes) {}
  std::size_t offset(std::size_t vector) const { return vector < whole ? vector * kLanes : length - kLanes; }
  std::size_t length, whole, vectors;
};

template <class T>
struct Rows {
  const T* data = nullptr;
  std::int64_t stride = 0;
  const T* row(std::size_t j) const { return data + static_cast<std::int64_t>(j) * stride; }
};

template <class T>
HWY_INLINE void prefetch_row(const T* row, std::size_t length) {
  for (std::size_t at = 0; at < length; at += kLineBytes / sizeof(T)) __builtin_prefetch(row + at);
}

#if HWY_TARGET != HWY_SCALAR
// The sum of the 128-bit blocks of v.
HWY_INLINE void store_folded(Vec v, float* out) {
  const hn::CappedTag<float, 4> quad;
#if HWY_MAX_BYTES == 16
  hn::StoreU(v, quad, out);
#else
  const hn::Half<F> half;
  const auto folded = hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v));
#if HWY_MAX_BYTES == 32
  hn::StoreU(folded, quad, out);
#else
  hn::StoreU(hn::Add(hn::LowerHalf(quad, folded), hn::UpperHalf(quad, folded)), quad, out);
#endif
#endif
}
#endif

// The sum of each of four vectors, to out[0..3].
HWY_INLINE void add_up_four(Vec a, Vec b, Vec c, Vec d, float* out) {
#if HWY_TARGET == HWY_SCALAR
  out[0] = hn::GetLane(a);
  out[1] = hn::GetLane(b);
  out[2] = hn::GetLane(c);
  out[3] = hn::GetLane(d);
#else
  const F f32;
  const hn::RepartitionToWide<F> pairs;
  const Vec ab = hn::Add(hn::InterleaveLower(f32, a, b), hn::InterleaveUpper(f32, a, b));
  const Vec cd = hn::Add(hn::InterleaveLower(f32, c, d), hn::InterleaveUpper(f32, c, d));
  const auto ab2 = hn::BitCast(pairs, ab), cd2 = hn::BitCast(pairs, cd);
  const Vec abcd = hn::Add(hn::BitCast(f32, hn::InterleaveLower(pairs, ab2, cd2)),
                           hn::BitCast(f32, hn::InterleaveUpper(pairs, ab2, cd2)));
  // Every 128-bit block now holds its part of (a, b, c, d).
  store_folded(abcd, out);
#endif
}

// Keys taken together: about twelve accumulators, a multiple of four.
template <int R>
inline constexpr int kKeysTogether = R == 1   ? 8
                                     : R == 4 ? 3
                                              : 4;

template <int R, int KB, class T>
HWY_INLINE void score_keys(Rows<T> k, const float* HWY_RESTRICT q, std::size_t q_stride, const Spans& dim,
                           float* HWY_RESTRICT s) {
  const F f32;
  constexpr int kGroups = (KB * R + 3) / 4;
  Vec acc[kGroups * 4];
  TESSERA_UNROLL
  for (int i = 0; i < kGroups * 4; ++i) acc[i] = hn::Zero(f32);
  for (std::size_t d = 0; d < dim.whole; ++d) {
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i) {
      const Vec key = load(k.row(i) + d * kLanes);
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        acc[i * R + r] = hn::MulAdd(key, hn::Load(f32, q + r * q_stride + d * kLanes), acc[i * R + r]);
      }
    }
  }
  if (dim.whole != dim.vectors) {
    const std::size_t overlap = kLanes - dim.length % kLanes;
    const auto fresh = hn::Not(hn::FirstN(f32, overlap));
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i) {
      const Vec key = hn::IfThenElseZero(fresh, load(k.row(i) + dim.length - kLanes));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        acc[i * R + r] =
            hn::MulAdd(key, hn::Load(f32, q + r * q_stride + dim.whole * kLanes), acc[i * R + r]);
      }
    }
  }
  float out[kGroups * 4];
  TESSERA_UNROLL
  for (int g = 0; g < kGroups; ++g) {
    add_up_four(acc[g * 4], acc[g * 4 + 1], acc[g * 4 + 2], acc[g * 4 + 3], out + g * 4);
  }
  TESSERA_UNROLL
  for (int i = 0; i < KB; ++i) {
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) s[i * kFewWidth + r] = out[i * R + r];
  }
}

// Scores of R rows; fetches the V rows of the same keys meanwhile.
template <int R, class T>
HWY_NOINLINE void score_few(Rows<T> k, Rows<T> v, std::size_t keys, const float* q, std::size_t q_stride,
                            std::size_t dim, std::size_t value_dim, float* s) {
  constexpr int KB = kKeysTogether<R>;
  const Spans spans(dim);
  std::size_t j = 0;
  for (; j + KB <= keys; j += KB) {
    for (int i = 0; i < KB; ++i) prefetch_row(v.row(j + i), value_dim);
    score_keys<R, KB>(Rows<T>{k.row(j), k.stride}, q, q_stride, spans, s + j * kFewWidth);
  }
  for (; j < keys; ++j) {
    score_keys<R, 1>(Rows<T>{k.row(j), k.stride}, q, q_stride, spans, s + j * kFewWidth);
  }
}

template <int R, int DB, class T>
HWY_INLINE bool output_spans(Rows<T> v, std::size_t keys, const float* HWY_RESTRICT p, const float* alpha,
                             const Spans& dim, std::size_t first, float* HWY_RESTRICT o,
                             std::size_t o_stride) {
  const F f32;
  Vec acc[R][DB];
  std::size_t offset[DB];
  TESSERA_UNROLL
  for (int i = 0; i < DB; ++i) {
    offset[i] = dim.offset(first + i);
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) acc[r][i] = hn::Zero(f32);
  }
  for (std::size_t j = 0; j < keys; ++j) {
    const T* const row = v.row(j);
    Vec value[DB];
    TESSERA_UNROLL
    for (int i = 0; i < DB; ++i) value[i] = load(row + offset[i]);
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec weight = hn::Set(f32, p[j * kFewWidth + r]);
      TESSERA_UNROLL
      for (int i = 0; i < DB; ++i) acc[r][i] = hn::MulAdd(value[i], weight, acc[r][i]);
    }
  }
  Vec probe = hn::Zero(f32);  // turns NaN if any result is not finite
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    const Vec a = hn::Set(f32, alpha[r]);
    TESSERA_UNROLL
    for (int i = 0; i < DB; ++i) {
      acc[r][i] = hn::MulAdd(hn::Load(f32, o + r * o_stride + (first + i) * kLanes), a, acc[r][i]);
      probe = hn::MulAdd(acc[r][i], hn::Zero(f32), probe);
    }
  }
  if (!hn::AllTrue(f32, hn::Eq(probe, hn::Zero(f32)))) return false;
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    TESSERA_UNROLL
    for (int i = 0; i < DB; ++i) hn::Store(acc[r][i], f32, o + r * o_stride + (first + i) * kLanes);
  }
  return true;
}

// Output vectors taken together: eight to twelve accumulators.
template <int R>
inline constexpr int kSpansTogether = R == 1   ? 8
                                      : R == 4 ? 2
                                               : 4;

// Returns the first vector that was not done because its result is not finite: V or the running output
// holds inf or NaN there, and the careful version must take over. All vectors done otherwise.
template <int R, class T>
HWY_NOINLINE std::size_t output_few(Rows<T> v, std::size_t keys, const float* p, const float* alpha,
                                    std::size_t value_dim, float* o, std::size_t o_stride) {
  constexpr std::size_t DB = kSpansTogether<R>;
  const Spans spans(value_dim);
  std::size_t i = 0;
  for (; i + DB <= spans.vectors; i += DB) {
    if (!output_spans<R, DB>(v, keys, p, alpha, spans, i, o, o_stride)) return i;
  }
  for (; i < spans.vectors; ++i) {
    if (!output_spans<R, 1>(v, keys, p, alpha, spans, i, o, o_stride)) return i;
  }
  return i;
}

// As output_lanes_careful, for vectors first ... of the output.
template <class T>
HWY_NOINLINE void output_few_careful(int rows, Rows<T> v, std::size_t keys, const float* p,
                                     const float* alpha, std::size_t value_dim, std::size_t first, float* o,
                                     std::size_t o_stride) {
  const F f32;
  const Spans spans(value_dim);
  const Vec zero = hn::Zero(f32);
  for (int r = 0; r < rows; ++r) {
    for (std::size_t i = first; i < spans.vectors; ++i) {
      Vec acc = zero;
      for (std::size_t j = 0; j < keys; ++j) {
        const float weight = p[j * kFewWidth + r];
        if (weight == 0) continue;
        const Vec value = load(v.row(j) + spans.offset(i));
        const auto finite = hn::Eq(hn::Mul(value, zero), zero);
        const Vec counted = hn::Set(f32, weight > 0 ? weight : 0.0f);
        acc = hn::IfThenElse(finite, hn::MulAdd(value, counted, acc), hn::Add(acc, value));
      }
      float* const at = o + r * o_stride + i * kLanes;
      hn::Store(grow_careful(hn::Load(f32, at), hn::Set(f32, alpha[r]), acc), f32, at);
    }
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
