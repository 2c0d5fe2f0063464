// Codes of 8 bits as floats, a vector at a time. Exact.
#if defined(TESSERA_CPU_DECODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_DECODE_INL
#undef TESSERA_CPU_DECODE_INL
#else
#define TESSERA_CPU_DECODE_INL
#endif

#include "cpu/blocking-inl.hpp"
#include "cpu/elements.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// A vector of codes as floats. Both formats of 8-bit floats are f16 with fewer bits, e4m3 but for its
// exponent, which is 8 too small there, and for its NaN. Neither the conversion nor the product makes or
// reads a subnormal float, so a thread that flushes those gets the same numbers.
template <class Format>
struct Decode;

template <>
struct Decode<E4M3> {
  // What is left to multiply by: where all codes of a row have a factor of their own anyway, this one costs
  // less beside that.
  static constexpr float kFactor = 256.0f;
  static HWY_INLINE Vec before_factor(const Code* from) {
    const hn::Rebind<std::int8_t, F> bytes;
    const hn::Rebind<std::int16_t, F> i16;
    const hn::Rebind<hwy::float16_t, F> f16;
    const auto code = hn::PromoteTo(i16, hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(&from->bits)));
    // The sign is in the upper 9 bits now: one of them goes where f16 has it, the next is taken off.
    const auto fields = hn::And(hn::ShiftLeft<7>(code), hn::Set(i16, static_cast<std::int16_t>(0xbfff)));
    const auto magnitude = hn::Set(i16, std::int16_t{0x3f80});
    const auto nan = hn::VecFromMask(i16, hn::Eq(hn::And(fields, magnitude), magnitude));  // all bits are NaN
    return hn::PromoteTo(F(), hn::BitCast(f16, hn::Or(fields, nan)));
  }
  static HWY_INLINE Vec of(const Code* from) { return hn::Mul(before_factor(from), hn::Set(F(), kFactor)); }
};

template <>
struct Decode<E5M2> {
  static HWY_INLINE Vec of(const Code* from) {
    const hn::Rebind<std::uint8_t, F> bytes;
    const hn::Rebind<std::uint16_t, F> u16;
    const hn::Rebind<hwy::float16_t, F> f16;
    const auto code = hn::PromoteTo(u16, hn::LoadU(bytes, &from->bits));
    return hn::PromoteTo(F(), hn::BitCast(f16, hn::ShiftLeft<8>(code)));
  }
};

template <>
struct Decode<I8> {
  static HWY_INLINE Vec of(const Code* from) {
    const F f32;
    const hn::Rebind<std::int8_t, F> bytes;
    const hn::RebindToSigned<F> i32;
    const auto code = hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(&from->bits));
    return hn::ConvertTo(f32, hn::PromoteTo(i32, code));
  }
};

template <class Format>
HWY_INLINE Vec decode(const Code* from) {
  if constexpr (kLanes == 1)
    return hn::Set(F(), code_values<Format>()[from->bits]);
  else
    return Decode<Format>::of(from);
}

// Codes as matrix products take them: what they load is still to be multiplied by kLoadFactor.
template <class T>
inline constexpr float kLoadFactor = 1.0f;
template <>
inline constexpr float kLoadFactor<CodeOf<E4M3>> = kLanes == 1 ? 1.0f : Decode<E4M3>::kFactor;

template <class Format>
HWY_INLINE Vec load(const CodeOf<Format>* from) {
  if constexpr (kLoadFactor<CodeOf<Format>> == 1.0f)
    return decode<Format>(&from->code);
  else
    return Decode<Format>::before_factor(&from->code);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
