// Dimensions in lanes: the matrix products for one to four rows (decode). K and V are read straight from
// the caller's memory in their own type, and with so few rows that reading is what takes the time.
//
//   scores   acc[key][row] += K[key][d...] * Q[row][d...]      then added up across lanes, four at a time
//   output   acc[row][d...] += P[key][row] * V[key][d...]
//
// One core reads faster from several places at once than from one (its prefetchers work per stream), so
// the key range is cut into kStreams stretches that are walked side by side; a tile takes the same number
// of keys from each.
//
// A length that is no multiple of the vector ends in one more vector that overlaps the one before it, so
// nothing outside the row is touched. Q is zero in the overlap; O keeps that vector in a slot of its own.
#if defined(TESSERA_CPU_FEW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_FEW_INL
#undef TESSERA_CPU_FEW_INL
#else
#define TESSERA_CPU_FEW_INL
#endif

#include "cpu/decode-inl.hpp"
#include "cpu/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

inline constexpr std::size_t kFewWidth = kWidth<kFewVectors>;

// A row of `length` elements as vectors.
struct Spans {
  explicit Spans(std::size_t elements)
      : length(elements), whole(elements / kLanes), vectors((elements + kLanes - 1) / kLanes) {}
  std::size_t offset(std::size_t vector) const { return vector < whole ? vector * kLanes : length - kLanes; }
  std::size_t length, whole, vectors;
};

inline constexpr int kStreams = 3;
inline constexpr std::int64_t kFewKeys = 16;  // per stream and tile: K and V tile stay in the first cache

// Keys of one tile: `keys` rows from each of `count` places, by their addresses. Their scores lie stream
// after stream, as the addresses do.
template <class T>
struct Streams {
  const T* row(int stream, std::size_t j) const { return rows[static_cast<std::size_t>(stream) * keys + j]; }
  std::size_t all() const { return keys * static_cast<std::size_t>(count); }
  const T* const* rows;
  std::size_t keys;  // per stream
  int count;         // kStreams, or 1 where the key range ends
};

// What codes are multiplied by that are read as they are: a float for each key of the tile, as the addresses
// lie, and maybe one for each column of V.
struct TileScales {
  const float *key = nullptr, *value = nullptr;  // value: null where channels are there
  const float* channels = nullptr;
};
template <class T>
inline constexpr bool kIsCode = false;
template <class Format>
inline constexpr bool kIsCode<CodeOf<Format>> = true;

// What products of loaded codes come to.
template <class T>
HWY_INLINE Vec scale_loaded(Vec x, Vec factor) {
  if constexpr (kLoadFactor<T> != 1.0f) x = hn::Mul(x, hn::Set(F(), kLoadFactor<T>));
  return hn::Mul(x, factor);
}

// What stands in s for each key of codes T, times its float.
template <class T>
HWY_INLINE void scale_keys(const float* HWY_RESTRICT factors, std::size_t keys, float* HWY_RESTRICT s) {
  const F f32;
  for (std::size_t j = 0; j < keys; ++j) {
    const Vec factor = hn::Set(f32, factors[j]);
    TESSERA_UNROLL
    for (int i = 0; i < kFewVectors; ++i) {
      float* const at = s + j * kFewWidth + static_cast<std::size_t>(i) * kLanes;
      hn::Store(scale_loaded<T>(hn::Load(f32, at), factor), f32, at);
    }
  }
}

// Vectors in a cache line of T, as far as unrolling over them makes sense.
template <class T>
inline constexpr std::size_t kVectorsPerLine = std::size_t{kLineBytes} / (sizeof(T) * kLanes) > 4
                                                   ? 4
                                                   : std::size_t{kLineBytes} / (sizeof(T) * kLanes);

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

// Keys taken together: nine to twelve accumulators, the same number from each stream.
template <int R>
inline constexpr int kKeysTogether = R <= 2 ? 6 : 3;

// `ahead` are rows to ask for meanwhile, line by line: among the arithmetic the requests cost nothing.
template <int R, int KB, class T>
HWY_INLINE void score_keys(const T* const (&k)[KB], const T* const (&ahead)[KB], const float* HWY_RESTRICT q,
                           std::size_t q_stride, const Spans& dim, float* const (&s)[KB]) {
  const F f32;
  constexpr int kGroups = (KB * R + 3) / 4;
  Vec acc[kGroups * 4];
  TESSERA_UNROLL
  for (int i = 0; i < kGroups * 4; ++i) acc[i] = hn::Zero(f32);
  const auto add_vector = [&](std::size_t d) HWY_ATTR {
    Vec key[KB];
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i) key[i] = load(k[i] + d * kLanes);
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec query = hn::Load(f32, q + r * q_stride + d * kLanes);
      TESSERA_UNROLL
      for (int i = 0; i < KB; ++i) acc[i * R + r] = hn::MulAdd(key[i], query, acc[i * R + r]);
    }
  };
  std::size_t d = 0;
  for (; d + kVectorsPerLine<T> <= dim.whole; d += kVectorsPerLine<T>) {
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i) __builtin_prefetch(ahead[i] + d * kLanes);
    TESSERA_UNROLL
    for (std::size_t u = 0; u < kVectorsPerLine<T>; ++u) add_vector(d + u);
  }
  for (; d < dim.whole; ++d) add_vector(d);
  if (dim.whole != dim.vectors) {
    const auto fresh = hn::Not(hn::FirstN(f32, kLanes - dim.length % kLanes));
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i) {
      const Vec key = hn::IfThenElseZero(fresh, load(k[i] + dim.length - kLanes));
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) {
        const Vec query = hn::Load(f32, q + r * q_stride + dim.whole * kLanes);
        acc[i * R + r] = hn::MulAdd(key, query, acc[i * R + r]);
      }
    }
  }
  if constexpr (R == 4) {
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i)
      add_up_four(acc[i * 4], acc[i * 4 + 1], acc[i * 4 + 2], acc[i * 4 + 3], s[i]);
  } else {
    float sums[kGroups * 4];
    TESSERA_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      add_up_four(acc[g * 4], acc[g * 4 + 1], acc[g * 4 + 2], acc[g * 4 + 3], sums + g * 4);
    }
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i) {
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) s[i][r] = sums[i * R + r];
    }
  }
}

// Scores of R rows. The rows of `ahead` that belong to the same keys are fetched meanwhile: V, which the
// output kernel reads column by column, an order that no prefetcher follows.
template <int R, class T>
HWY_NOINLINE void score_few(const Streams<T>& k, const Streams<T>& ahead, const float* q,
                            std::size_t q_stride, std::size_t dim, float* s) {
  constexpr int KB = kKeysTogether<R>;
  const Spans spans(dim);
  const T *row[KB], *next[KB];
  float* to[KB];
  std::size_t j = 0;
  if (k.count == kStreams) {
    constexpr int kEach = KB / kStreams;
    for (; j + kEach <= k.keys; j += kEach) {
      TESSERA_UNROLL
      for (int i = 0; i < KB; ++i) {
        const int stream = i / kEach;
        const std::size_t at = j + static_cast<std::size_t>(i % kEach);
        row[i] = k.row(stream, at);
        next[i] = ahead.row(stream, at);
        to[i] = s + (static_cast<std::size_t>(stream) * k.keys + at) * kFewWidth;
      }
      score_keys<R, KB>(row, next, q, q_stride, spans, to);
    }
    return;
  }
  for (; j + KB <= k.keys; j += KB) {
    TESSERA_UNROLL
    for (int i = 0; i < KB; ++i) {
      row[i] = k.row(0, j + static_cast<std::size_t>(i));
      next[i] = ahead.row(0, j + static_cast<std::size_t>(i));
      to[i] = s + (j + static_cast<std::size_t>(i)) * kFewWidth;
    }
    score_keys<R, KB>(row, next, q, q_stride, spans, to);
  }
  for (; j < k.keys; ++j) {
    const T *const one_row[1] = {k.row(0, j)}, *const one_next[1] = {ahead.row(0, j)};
    float* const one_to[1] = {s + j * kFewWidth};
    score_keys<R, 1>(one_row, one_next, q, q_stride, spans, one_to);
  }
}

// One tile's P * V.
template <class T>
struct OutputStep {
  Streams<T> v;
  const float* p;      // [stream][key][kFewWidth]
  const float* alpha;  // [row]
  Spans dim;
  float* o;
  std::size_t o_stride;
  TileScales scales;  // value's are in p already, but for the careful version
};

template <int R, int DB, class T>
HWY_INLINE bool output_spans(const OutputStep<T>& step, std::size_t first) {
  const F f32;
  Vec acc[R][DB];
  std::size_t offset[DB];
  TESSERA_UNROLL
  for (int i = 0; i < DB; ++i) {
    offset[i] = step.dim.offset(first + i);
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) acc[r][i] = hn::Zero(f32);
  }
  const float* HWY_RESTRICT p = step.p;
  const T* const* const rows = step.v.rows;
  for (std::size_t j = 0, keys = step.v.all(); j < keys; ++j, p += kFewWidth) {
    const T* const row = rows[j];
    Vec value[DB];
    TESSERA_UNROLL
    for (int i = 0; i < DB; ++i) value[i] = load(row + offset[i]);
    TESSERA_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec weight = hn::Set(f32, p[r]);
      TESSERA_UNROLL
      for (int i = 0; i < DB; ++i) acc[r][i] = hn::MulAdd(value[i], weight, acc[r][i]);
    }
  }
  if constexpr (kIsCode<T>) {
    TESSERA_UNROLL
    for (int i = 0; i < DB; ++i) {
      if (step.scales.channels == nullptr) break;
      const Vec channel = load(step.scales.channels + offset[i]);
      TESSERA_UNROLL
      for (int r = 0; r < R; ++r) acc[r][i] = scale_loaded<T>(acc[r][i], channel);
    }
  }
  float* const o = step.o + first * kLanes;
  Vec probe = hn::Zero(f32);  // turns NaN if any result is not finite
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    const Vec a = hn::Set(f32, step.alpha[r]);
    TESSERA_UNROLL
    for (int i = 0; i < DB; ++i) {
      acc[r][i] = hn::MulAdd(hn::Load(f32, o + r * step.o_stride + i * kLanes), a, acc[r][i]);
      probe = hn::MulAdd(acc[r][i], hn::Zero(f32), probe);
    }
  }
  if (!hn::AllTrue(f32, hn::Eq(probe, hn::Zero(f32)))) return false;
  TESSERA_UNROLL
  for (int r = 0; r < R; ++r) {
    TESSERA_UNROLL
    for (int i = 0; i < DB; ++i) hn::Store(acc[r][i], f32, o + r * step.o_stride + i * kLanes);
  }
  return true;
}

template <int R, int DB, class T>
HWY_INLINE bool output_spans_sized(std::size_t spans, const OutputStep<T>& step, std::size_t first) {
  if constexpr (DB > 1) {
    if (spans != DB) return output_spans_sized<R, DB - 1>(spans, step, first);
  }
  return output_spans<R, DB>(step, first);
}

// Output vectors taken together: eight to twelve accumulators.
template <int R>
inline constexpr int kSpansTogether = R == 1   ? 8
                                      : R == 4 ? 3
                                               : 4;

// Returns the first vector that was not done because its result is not finite: V or the running output
// holds inf or NaN there, and the careful version must take over. All vectors done otherwise.
template <int R, class T>
HWY_NOINLINE std::size_t output_few(const OutputStep<T>& step) {
  constexpr std::size_t kMost = kSpansTogether<R>;
  const std::size_t blocks = (step.dim.vectors + kMost - 1) / kMost;
  const std::size_t base = step.dim.vectors / blocks, larger = step.dim.vectors % blocks;
  std::size_t first = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t spans = base + (b < larger ? 1 : 0);
    if (!output_spans_sized<R, kMost>(spans, step, first)) return first;
    first += spans;
  }
  return first;
}

// As output_lanes_careful, for vectors first ... of the output.
template <class T>
HWY_NOINLINE void output_few_careful(int rows, const OutputStep<T>& step, std::size_t first) {
  const F f32;
  const Vec zero = hn::Zero(f32);
  for (int r = 0; r < rows; ++r) {
    for (std::size_t i = first; i < step.dim.vectors; ++i) {
      Vec acc = zero;
      // In the order of output_spans, so that finite results have the same bits.
      for (std::size_t n = 0; n < step.v.all(); ++n) {
        const float weight = step.p[n * kFewWidth + static_cast<std::size_t>(r)];
        if (weight == 0) continue;
        Vec value = load(step.v.rows[n] + step.dim.offset(i));
        const auto finite = hn::Eq(hn::Mul(value, zero), zero);
        float counts = weight > 0 ? weight : 0.0f;
        if constexpr (kIsCode<T>) {
          const bool by_key = step.scales.value != nullptr;
          const float scale = by_key ? step.scales.value[n] : 1.0f;
          if (by_key) counts = counts * kLoadFactor<T> * scale;
          value = hn::IfThenElse(finite, value, hn::Mul(value, hn::Set(f32, scale)));
        }
        const Vec counted = hn::Set(f32, counts);
        acc = hn::IfThenElse(finite, hn::MulAdd(value, counted, acc), hn::Add(acc, value));
      }
      if constexpr (kIsCode<T>) {
        if (step.scales.channels != nullptr)
          acc = scale_loaded<T>(acc, load(step.scales.channels + step.dim.offset(i)));
      }
      float* const at = step.o + static_cast<std::size_t>(r) * step.o_stride + i * kLanes;
      hn::Store(grow_careful(hn::Load(f32, at), hn::Set(f32, step.alpha[r]), acc), f32, at);
    }
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
