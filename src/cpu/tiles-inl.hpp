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

// Rows of one tile to float; true if every element is finite.
template <class T>
HWY_NOINLINE bool convert_rows(const T* from, std::int64_t from_stride, std::size_t rows, std::size_t length,
                               float* to, std::size_t to_stride) {
  Vec probe = hn::Zero(F());  // turns NaN with the first element that is not finite
  for (std::size_t j = 0; j < rows; ++j) {
    probe = convert_row(from + static_cast<std::int64_t>(j) * from_stride, length, to + j * to_stride, probe);
  }
  return all_finite(probe);
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
