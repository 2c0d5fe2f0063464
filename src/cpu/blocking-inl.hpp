// Per-target constants and the handful of vector helpers everything else is written in.
//
// A panel is a group of rows (queries) that sit side by side in vector lanes. Micro-kernels keep
// block x vectors accumulators: enough to cover the latency of two FMA units, few enough to leave
// registers for the operands.
#if defined(TESSERA_CPU_BLOCKING_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_BLOCKING_INL
#undef TESSERA_CPU_BLOCKING_INL
#else
#define TESSERA_CPU_BLOCKING_INL
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "cpu/elements.hpp"
#include "hwy/highway.h"

// Loops over registers must disappear completely, or the accumulators live in memory.
#undef TESSERA_UNROLL
#if defined(__clang__)
#define TESSERA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TESSERA_UNROLL _Pragma("GCC unroll 32")
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using Vec = hn::Vec<F>;
inline constexpr std::size_t kLanes = HWY_LANES(float);

// Accumulators of the widest micro-kernel: 12 of 16 registers with AVX2, 24 of 32 with AVX-512 and NEON.
#if HWY_TARGET == HWY_SCALAR
inline constexpr int kWide = 4;
inline constexpr int kWideBlock = 3;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kWide = 2;
inline constexpr int kWideBlock = 6;
#elif HWY_TARGET == HWY_AVX3
inline constexpr int kWide = 2;
inline constexpr int kWideBlock = 12;
#else
inline constexpr int kWide = 4;
inline constexpr int kWideBlock = 6;
#endif
inline constexpr int kNarrow = kWide / 2;
inline constexpr int kNarrowBlock = kWideBlock == 12 ? 12 : 2 * kWideBlock;

// Rows that the dim-in-lanes kernels take at once, and the panel width that holds their scores.
inline constexpr int kFew = 4;
inline constexpr int kFewVectors = kLanes >= kFew ? 1 : kFew;

template <int NV>
inline constexpr std::size_t kWidth = NV* kLanes;
template <int NV>
inline constexpr int kBlock = NV == kNarrow ? kNarrowBlock : kWideBlock;
inline constexpr int kLineBytes = 64;  // of a cache
inline constexpr std::size_t kMaxWidth = kWidth<kWide>;

inline constexpr float kInf = std::numeric_limits<float>::infinity();

HWY_INLINE Vec load(const float* p) { return hn::LoadU(F(), p); }

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Vec load(const F16* p) { return hn::Set(F(), to_float(*p)); }
HWY_INLINE Vec load(const BF16* p) { return hn::Set(F(), to_float(*p)); }
#else
HWY_INLINE Vec load(const F16* p) {
  const hn::Rebind<std::uint16_t, F> bits;
  const hn::Rebind<hwy::float16_t, F> half;
  return hn::PromoteTo(F(), hn::BitCast(half, hn::LoadU(bits, &p->bits)));
}
HWY_INLINE Vec load(const BF16* p) {
  const hn::Rebind<std::uint16_t, F> bits;
  const hn::Rebind<std::uint32_t, F> wide;
  return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(bits, &p->bits))));
}
#endif

HWY_INLINE void store(Vec v, float* p) { hn::StoreU(v, F(), p); }

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void store(Vec v, F16* p) { from_float(hn::GetLane(v), p); }
HWY_INLINE void store(Vec v, BF16* p) { from_float(hn::GetLane(v), p); }
#else
HWY_INLINE void store(Vec v, F16* p) {
  const hn::Rebind<std::uint16_t, F> bits;
  const hn::Rebind<hwy::float16_t, F> half;
  hn::StoreU(hn::BitCast(bits, hn::DemoteTo(half, v)), bits, &p->bits);
}
// By hand: Highway's own conversion truncates in some versions.
HWY_INLINE void store(Vec v, BF16* p) {
  const hn::Rebind<std::uint16_t, F> narrow;
  const hn::Rebind<std::uint32_t, F> wide;
  const hn::Rebind<std::int32_t, F> wide_signed;
  const auto bits = hn::BitCast(wide, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fffu))));
  const auto quiet_nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(wide, 0x40u));
  const auto is_nan = hn::RebindMask(wide, hn::IsNaN(v));
  const auto chosen = hn::IfThenElse(is_nan, quiet_nan, rounded);
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(wide_signed, chosen)), narrow, &p->bits);
}
#endif

HWY_INLINE bool all_finite(Vec v) {
  // 0 for a finite lane, NaN for any other.
  const Vec zero = hn::Zero(F());
  return hn::AllTrue(F(), hn::Eq(hn::Mul(v, zero), zero));
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
