// Stored element types and their exact scalar conversions, for the places where a vector instruction
// is missing or a single element is wanted. Rounding is to nearest, ties to even.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tessera::cpu {

struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};
// An element of 8 bits; of which format, the problem says. Kernels of it read rows through CodeRows, which
// also has those that lie in two tensors.
struct Code {
  std::uint8_t bits;
};

inline float to_float(float x) { return x; }

inline float to_float(BF16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

inline float to_float(F16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Read as a float with exponent bias 15 instead of 127, which the product puts right; this covers
  // subnormals, whose product is exact too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

// The formats of codes: by how many bits their fields stand below those of a float, what their exponent lacks
// to a float's, and from which magnitude on they are no numbers.
struct E4M3 {
  static constexpr int kShift = 20, kBias = 127 - 7;
  static constexpr std::uint32_t kSpecial = 0x7f;  // NaN; there is no infinity
};
struct E5M2 {
  static constexpr int kShift = 21, kBias = 127 - 15;
  static constexpr std::uint32_t kSpecial = 0x7c;  // infinity, and NaN above it
};

// No float but a whole number.
struct I8 {};

template <class Format>
constexpr float code_value(std::uint32_t code) {
  const std::uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7fu;
  const std::uint32_t fields = magnitude << Format::kShift;
  if (magnitude >= Format::kSpecial) return std::bit_cast<float>(sign | 0x7f800000u | fields);
  constexpr std::uint32_t kBias = std::uint32_t{Format::kBias} << 23, kOne = 1u << 23;
  if (fields >= kOne) return std::bit_cast<float>(sign | (fields + kBias));
  const float least = std::bit_cast<float>(kBias + kOne);
  const float subnormal = std::bit_cast<float>(fields + kBias + kOne) - least;
  return sign != 0 ? -subnormal : subnormal;
}

// A code of a format that is known.
template <class Format>
struct CodeOf {
  Code code;
};

template <>
constexpr float code_value<I8>(std::uint32_t code) {
  return static_cast<float>(static_cast<std::int8_t>(code));
}

// What every code stands for.
template <class Format>
const std::array<float, 256>& code_values() {
  static constexpr std::array<float, 256> values = [] {
    std::array<float, 256> all{};
    for (std::uint32_t code = 0; code < 256; ++code) all[code] = code_value<Format>(code);
    return all;
  }();
  return values;
}

inline void from_float(float x, float* out) { *out = x; }

inline void from_float(float x, BF16* out) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const std::uint32_t quiet_nan = bits >> 16 | 0x40u;
  out->bits = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

inline void from_float(float x, F16* out) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves units of 2^-24 at the bottom
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  out->bits = static_cast<std::uint16_t>(sign | half);
}

}  // namespace tessera::cpu
