// Moving data between the caller's tensors and the float scratch of a work item: rows converted as they
// are, queries transposed into panels, outputs transposed back, scaled and rounded.
#if defined(TESSERA_CPU_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_TILES_INL
#undef TESSERA_CPU_TILES_INL
#else
#define TESSERA_CPU_TILES_INL
#endif

#include "cpu/blocking-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// A scratch row's length in floats: whole vectors, and no power of two, so that the rows of a tile do
// not all compete for the same cache sets.
HWY_INLINE std::int64_t padded(std::int64_t length) { return (length + 15) / 16 * 16 + 16; }

template <class T>
HWY_INLINE Vec convert_row(const T* HWY_RESTRICT from, std::size_t length, float* HWY_RESTRICT to,
                           Vec probe) {
  const F f32;
  const Vec zero = hn::Zero(f32);
  std::size_t d = 0;
  for (; d + kLanes <= length; d += kLanes) {
    const Vec x = load(from + d);
    probe = hn::MulAdd(x, zero, probe);
    hn::Store(x, f32, to + d);
  }
  for (; d < length; ++d) {
    to[d] = to_float(from[d]);
    probe = hn::MulAdd(hn::Set(f32, to[d]), zero, probe);
  }
  return probe;
}

// What rows turned out to hold while they were moved.
enum RowsHold : unsigned {
  kNothingSpecial = 0,
  kNotFinite = 1,  // inf or NaN
  kTiny = 2,       // numbers that the dot product of pairs flushes to zero: only pairs-inl.hpp asks
};

// Rows of T, by their addresses, to float.
template <class T>
HWY_NOINLINE unsigned convert_rows(const char* const* from, std::size_t rows, std::size_t length, float* to,
                                   std::size_t to_stride) {
  Vec probe = hn::Zero(F());  // turns NaN with the first element that is not finite
  for (std::size_t j = 0; j < rows; ++j) {
    probe = convert_row(reinterpret_cast<const T*>(from[j]), length, to + j * to_stride, probe);
  }
  return all_finite(probe) ? kNothingSpecial : kNotFinite;
}
using RowConverter = decltype(&convert_rows<float>);

#if HWY_TARGET != HWY_SCALAR
// The 128-bit blocks of v, block b to out + b * stride.
HWY_INLINE void store_blocks(Vec v, float* out, std::size_t stride) {
  const hn::CappedTag<float, 4> quad;
#if HWY_MAX_BYTES == 16
  (void)stride;
  hn::StoreU(v, quad, out);
#else
  const hn::Half<F> half;
  const auto low = hn::LowerHalf(half, v), high = hn::UpperHalf(half, v);
#if HWY_MAX_BYTES == 32
  hn::StoreU(low, quad, out);
  hn::StoreU(high, quad, out + stride);
#else
  hn::StoreU(hn::LowerHalf(quad, low), quad, out);
  hn::StoreU(hn::UpperHalf(quad, low), quad, out + stride);
  hn::StoreU(hn::LowerHalf(quad, high), quad, out + 2 * stride);
  hn::StoreU(hn::UpperHalf(quad, high), quad, out + 3 * stride);
#endif
#endif
}

// Four rows of kLanes floats become kLanes rows of four.
HWY_INLINE void transpose_four(Vec a, Vec b, Vec c, Vec d, float* to, std::size_t to_stride) {
  const F f32;
  const hn::RepartitionToWide<F> pairs;
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(f32, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(f32, a, b));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(f32, c, d));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(f32, c, d));
  // Within each 128-bit block now stands one column; column i of block b is row 4 * b + i of the result.
  store_blocks(hn::BitCast(f32, hn::InterleaveLower(pairs, ab_low, cd_low)), to, 4 * to_stride);
  store_blocks(hn::BitCast(f32, hn::InterleaveUpper(pairs, ab_low, cd_low)), to + to_stride, 4 * to_stride);
  store_blocks(hn::BitCast(f32, hn::InterleaveLower(pairs, ab_high, cd_high)), to + 2 * to_stride,
               4 * to_stride);
  store_blocks(hn::BitCast(f32, hn::InterleaveUpper(pairs, ab_high, cd_high)), to + 3 * to_stride,
               4 * to_stride);
}
#endif

// to[column][row] = from[row][column].
inline HWY_NOINLINE void transpose(const float* HWY_RESTRICT from, std::size_t from_stride, std::size_t rows,
                                   std::size_t columns, float* HWY_RESTRICT to, std::size_t to_stride) {
  std::size_t r = 0, whole = 0;
#if HWY_TARGET != HWY_SCALAR
  whole = columns / kLanes * kLanes;
  for (; r + 4 <= rows; r += 4) {
    for (std::size_t c = 0; c < whole; c += kLanes) {
      const float* const at = from + r * from_stride + c;
      transpose_four(load(at), load(at + from_stride), load(at + 2 * from_stride), load(at + 3 * from_stride),
                     to + c * to_stride + r, to_stride);
    }
  }
#endif
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t c = i < r ? whole : 0; c < columns; ++c) {
      to[c * to_stride + i] = from[i * from_stride + c];
    }
  }
}

// output = row * multiplier, rounded to T.
template <class T>
HWY_INLINE void write_row(const float* HWY_RESTRICT row, std::size_t length, float multiplier,
                          T* HWY_RESTRICT out) {
  const F f32;
  const Vec m = hn::Set(f32, multiplier);
  std::size_t d = 0;
  for (; d + kLanes <= length; d += kLanes) store(hn::Mul(hn::Load(f32, row + d), m), out + d);
  for (; d < length; ++d) from_float(row[d] * multiplier, out + d);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
