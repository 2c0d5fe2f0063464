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

#include <algorithm>
#include <type_traits>

#include "cpu/feed-inl.hpp"
#include "cpu/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

inline constexpr std::int64_t kTinyDim = 8;  // at most
inline constexpr std::size_t kColumn = 256;  // keys of a tile: K and V in columns stay in the first cache
inline constexpr std::size_t kColumnStride = kColumn + 16;  // no power of two, see padded()
static_assert(kColumn % kLanes == 0 && kColumnStride % kLanes == 0);

// `keys` rows of `length` elements each as floats: where they are, or in `scratch`.
template <class T>
HWY_INLINE FloatTile as_floats(const Rows& rows, std::int64_t first, std::size_t keys, std::size_t length,
                               float* scratch) {
  const Vec zero = hn::Zero(F());
  if (!rows.paged()) {
    const T* const from = reinterpret_cast<const T*>(rows.row(first));
    const std::size_t stride = static_cast<std::size_t>(rows.stride()) / sizeof(T);
    if constexpr (std::is_same_v<T, float>) {
      return {from, stride};
    } else if (stride == length) {
      convert_row(from, keys * length, scratch, zero);
      return {scratch, length};
    }
  }
  const T* from[kColumn];
  rows.put(first, static_cast<std::int64_t>(keys), from);
  for (std::size_t j = 0; j < keys; ++j) convert_row(from[j], length, scratch + j * kTinyDim, zero);
  return {scratch, kTinyDim};
}

template <class T>
HWY_INLINE FloatTile as_floats(const CodeRows& rows, std::int64_t first, std::size_t keys,
                               std::size_t /*length*/, float* scratch) {
  rows.read(first, keys, scratch, kTinyDim);
  return {scratch, kTinyDim};
}

#if HWY_TARGET != HWY_SCALAR
// Four elements of each of four rows to four columns.
HWY_INLINE void turn_block(const float* rows, std::size_t stride, float* columns) {
  const hn::FixedTag<float, 4> quad;
  const hn::RepartitionToWide<decltype(quad)> pairs;
  const auto a = hn::LoadU(quad, rows), b = hn::LoadU(quad, rows + stride);
  const auto c = hn::LoadU(quad, rows + 2 * stride), d = hn::LoadU(quad, rows + 3 * stride);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(quad, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(quad, a, b));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(quad, c, d));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(quad, c, d));
  const auto put = [&](std::size_t column, auto x)
                       HWY_ATTR { hn::Store(hn::BitCast(quad, x), quad, columns + column * kColumnStride); };
  put(0, hn::InterleaveLower(pairs, ab_low, cd_low));
  put(1, hn::InterleaveUpper(pairs, ab_low, cd_low));
  put(2, hn::InterleaveLower(pairs, ab_high, cd_high));
  put(3, hn::InterleaveUpper(pairs, ab_high, cd_high));
}
#endif

// What vectors can turn into columns; the keys after the returned number are left.
HWY_INLINE std::size_t turn_by_vectors(FloatTile tile, std::size_t keys, std::size_t length, float* columns) {
  const F f32;
  std::size_t j = 0;
  if (tile.stride == 1 && length == 1) {
    for (; j + kLanes <= keys; j += kLanes) hn::Store(hn::LoadU(f32, tile.data + j), f32, columns + j);
  } else if (tile.stride == 2 && length == 2) {
    for (Vec a, b; j + kLanes <= keys; j += kLanes) {
      hn::LoadInterleaved2(f32, tile.data + 2 * j, a, b);
      hn::Store(a, f32, columns + j);
      hn::Store(b, f32, columns + kColumnStride + j);
    }
#if HWY_TARGET != HWY_SCALAR
  } else if (length >= 4) {
    for (; j + 4 <= keys; j += 4) {
      const float* const rows = tile.data + j * tile.stride;
      turn_block(rows, tile.stride, columns + j);
      // Between four and eight the blocks overlap, and some columns are written twice.
      if (length > 4) {
        turn_block(rows + length - 4, tile.stride, columns + (length - 4) * kColumnStride + j);
      }
    }
#endif
  }
  return j;
}

// Rows to columns; what is left of the last vector becomes zero.
HWY_INLINE void to_columns(FloatTile tile, std::size_t keys, std::size_t length, float* columns) {
  const std::size_t done = turn_by_vectors(tile, keys, length, columns);
  for (std::size_t j = done; j < keys; ++j) {
    for (std::size_t d = 0; d < length; ++d) columns[d * kColumnStride + j] = tile.data[j * tile.stride + d];
  }
  const std::size_t whole = (keys + kLanes - 1) / kLanes * kLanes;
  for (std::size_t d = 0; d < length; ++d)
    std::fill(columns + d * kColumnStride + keys, columns + d * kColumnStride + whole, 0.0f);
}

HWY_INLINE bool finite_columns(const float* columns, std::size_t keys, std::size_t length) {
  const F f32;
  const hn::RebindToSigned<F> i32;
  // As integers: a chain of floating-point additions would take four times as long.
  const auto magnitude = hn::Set(i32, 0x7fffffff), infinity = hn::Set(i32, 0x7f800000);
  auto highest = hn::Zero(i32);
  for (std::size_t d = 0; d < length; ++d) {
    for (std::size_t j = 0; j < keys; j += kLanes) {
      const auto bits = hn::BitCast(i32, hn::Load(f32, columns + d * kColumnStride + j));
      highest = hn::Max(highest, hn::And(bits, magnitude));
    }
  }
  return hn::AllTrue(i32, hn::Lt(highest, infinity));
}

// One row, and keys from ... to of the columns.
struct TinyRow {
  const float* query;
  const float* key;    // [dim][kColumnStride]
  const float* value;  // [value_dim][kColumnStride]
  std::size_t dim, value_dim;
  std::size_t from, to;
  float* s;  // [kColumn], scores and then weights
  float *max, *sum, *output;
};

// Scores of N vectors of keys from j on; keys that the row does not see get -inf.
template <int N>
HWY_INLINE Vec score_vectors(const TinyRow& row, std::size_t j, Vec highest) {
  const F f32;
  Vec x[N];
  TESSERA_UNROLL
  for (int i = 0; i < N; ++i) x[i] = hn::Zero(f32);
  for (std::size_t d = 0; d < row.dim; ++d) {
    const Vec query = hn::Set(f32, row.query[d]);
    TESSERA_UNROLL
    for (int i = 0; i < N; ++i) {
      x[i] = hn::MulAdd(query, hn::Load(f32, row.key + d * kColumnStride + j + i * kLanes), x[i]);
    }
  }
  if (j < row.from || j + N * kLanes > row.to) {
    const Vec from = hn::Set(f32, static_cast<float>(row.from));
    const Vec to = hn::Set(f32, static_cast<float>(row.to));
    TESSERA_UNROLL
    for (int i = 0; i < N; ++i) {
      const Vec key = hn::Iota(f32, static_cast<float>(j + i * kLanes));
      const auto visible = hn::And(hn::Ge(key, from), hn::Lt(key, to));
      x[i] = hn::IfThenElse(visible, x[i], hn::Set(f32, -kInf));
    }
  }
  TESSERA_UNROLL
  for (int i = 0; i < N; ++i) {
    highest = hn::Max(highest, x[i]);
    hn::Store(x[i], f32, row.s + j + i * kLanes);
  }
  return highest;
}

// Scores of all vectors that hold visible keys. Returns the highest.
HWY_INLINE float score_tiny(const TinyRow& row, std::size_t begin) {
  Vec highest = hn::Set(F(), -kInf);
  std::size_t j = begin;
  for (; j + 3 * kLanes < row.to; j += 4 * kLanes) highest = score_vectors<4>(row, j, highest);
  for (; j < row.to; j += kLanes) highest = score_vectors<1>(row, j, highest);
  return hn::GetLane(hn::MaxOfLanes(F(), highest));
}

// acc + value * weight. kCareful: V holds inf or NaN; weights come from weigh<.., true>, see
// output_lanes_careful.
template <bool kCareful>
HWY_INLINE Vec add_weighted(Vec value, Vec weight, Vec acc) {
  if constexpr (!kCareful) return hn::MulAdd(value, weight, acc);
  const Vec zero = hn::Zero(F());
  const auto finite = hn::Eq(hn::Mul(value, zero), zero);
  const Vec counted = hn::MulAdd(value, hn::IfThenElseZero(hn::Gt(weight, zero), weight), acc);
  const Vec whole = hn::IfThenElse(hn::Eq(weight, zero), acc, hn::Add(acc, value));
  return hn::IfThenElse(finite, counted, whole);
}

// Adds the keys' part to D outputs that follow each other, in four sums side by side: one alone is a chain of
// additions.
template <int D, bool kCareful>
HWY_INLINE void output_tiny(const TinyRow& row, std::size_t begin, std::size_t first, Vec alpha) {
  constexpr int N = 4 / D;
  const F f32;
  Vec acc[D * N];
  TESSERA_UNROLL
  for (int i = 0; i < D * N; ++i) acc[i] = hn::Zero(f32);
  const float* const column = row.value + first * kColumnStride;
  const auto add = [&](std::size_t j, int n) HWY_ATTR {
    const Vec weight = hn::Load(f32, row.s + j);
    TESSERA_UNROLL
    for (int d = 0; d < D; ++d) {
      const Vec value = hn::Load(f32, column + d * kColumnStride + j);
      acc[d * N + n] = add_weighted<kCareful>(value, weight, acc[d * N + n]);
    }
  };
  std::size_t j = begin;
  for (; j + (N - 1) * kLanes < row.to; j += N * kLanes) {
    TESSERA_UNROLL
    for (int n = 0; n < N; ++n) add(j + n * kLanes, n);
  }
  for (; j < row.to; j += kLanes) add(j, 0);
  TESSERA_UNROLL
  for (int d = 0; d < D; ++d) {
    Vec sum = acc[d * N];
    TESSERA_UNROLL
    for (int n = 1; n < N; ++n) sum = hn::Add(sum, acc[d * N + n]);
    float* const to = row.output + first + d;
    *to = hn::GetLane(grow_careful(hn::Set(f32, *to), alpha, hn::SumOfLanes(f32, sum)));
  }
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
  std::size_t d = 0;
  for (; d + 4 <= row.value_dim; d += 4) output_tiny<4, kCareful>(row, begin, d, alpha);
  for (; d < row.value_dim; ++d) output_tiny<1, kCareful>(row, begin, d, alpha);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
