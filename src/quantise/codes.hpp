// Floats as 8-bit codes: to the nearest, ties to even; what lies beyond the largest number, infinity too,
// becomes that number. NaN stays NaN, and becomes 0 where there is none.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::codes {

// Fraction bits, exponent bias and largest number of a format.
struct E4M3 {
  static constexpr int kFraction = 3, kBias = 7;
  static constexpr float kLargest = 448;
  static constexpr std::uint32_t kLargestCode = 0x7e;
};
struct E5M2 {
  static constexpr int kFraction = 2, kBias = 15;
  static constexpr float kLargest = 57344;
  static constexpr std::uint32_t kLargestCode = 0x7b;
};

// Whole numbers; -128 is left out, so that the range is the same on both sides.
struct I8 {
  static constexpr float kLargest = 127;
};

inline constexpr std::uint32_t kNanCode = 0x7f;  // of both formats

template <class Format>
std::uint8_t encode(float x) {
  constexpr int kDropped = 23 - Format::kFraction;
  constexpr std::uint32_t kRebias = std::uint32_t{127 - Format::kBias} << 23;
  constexpr std::uint32_t kLeastNormal = kRebias + (1u << 23);
  // A float whose last place is worth as much as that of a subnormal code.
  constexpr std::uint32_t kUnits = std::uint32_t{127 + 1 - Format::kBias + kDropped} << 23;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  std::uint32_t code = 0;
  if (magnitude > 0x7f800000u) {
    code = kNanCode;
  } else if (magnitude >= std::bit_cast<std::uint32_t>(Format::kLargest)) {
    code = Format::kLargestCode;
  } else if (magnitude < kLeastNormal) {
    const float sum = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kUnits);
    code = std::bit_cast<std::uint32_t>(sum) - kUnits;
  } else {
    const std::uint32_t half = (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1u);
    code = (magnitude - kRebias + half) >> kDropped;
  }
  return static_cast<std::uint8_t>(sign | code);
}

template <>
inline std::uint8_t encode<I8>(float x) {
  // A float whose last place is worth 1, above as many as there are whole numbers below 0.
  constexpr float kUnits = 0x1.8p23f;
  if (x != x) return 0;
  const float clamped = x > I8::kLargest ? I8::kLargest : x < -I8::kLargest ? -I8::kLargest : x;
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(clamped + kUnits));
}

}  // namespace tessera::codes
