// Floating dtypes as the judges read and write them: from the definitions of the formats, one rounding (to
// nearest, ties to even) straight from float64, subnormals, infinities and NaN included.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "oracle/oracle.hpp"

namespace tessera::oracle {
namespace {

struct Format {
  int fraction_bits;
  int min_exponent;  // of the smallest normal number
  int max_exponent;  // of the largest finite number
  int sign_bit = 0;  // of formats that are written and read here
  // Where there is no infinity, its exponent holds numbers too: all but the last code, which is NaN, and what
  // lies beyond the largest number.
  bool has_infinity = true;

  std::uint32_t special() const {  // the magnitude of infinity, or of the only NaN
    if (!has_infinity) return (1u << sign_bit) - 1;
    return static_cast<std::uint32_t>(max_exponent - min_exponent + 2) << fraction_bits;
  }
};
constexpr Format kF32{23, -126, 127};
constexpr Format kF16{10, -14, 15, 15};
constexpr Format kBf16{7, -126, 127, 15};
constexpr Format kF8E4M3{3, -6, 8, 7, false};
constexpr Format kF8E5M2{2, -14, 15, 7};

const Format& format_of(tessera_dtype dtype) {
  switch (dtype) {
    case TESSERA_F32:
      return kF32;
    case TESSERA_F16:
      return kF16;
    case TESSERA_BF16:
      return kBf16;
    case TESSERA_F8E4M3:
      return kF8E4M3;
    case TESSERA_F8E5M2:
      return kF8E5M2;
    default:
      std::abort();  // the problem was not validated
  }
}

// The bits of value in a format of 16 or 8 bits: sign, exponent field, fraction.
std::uint16_t encode(double value, const Format& format) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << format.sign_bit);
  const std::uint32_t special = format.special();
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | special | 1u << (format.fraction_bits - 1));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | special);

  // value = significand * 2^(exponent - 52)
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  std::uint64_t significand = bits & ((std::uint64_t{1} << 52) - 1);
  if (field != 0) significand |= std::uint64_t{1} << 52;
  const int exponent = (field == 0 ? 1 : field) - 1023;

  const bool subnormal = exponent < format.min_exponent;
  const int dropped = 52 - format.fraction_bits + (subnormal ? format.min_exponent - exponent : 0);
  if (dropped > 60) return sign;  // far below half of the smallest subnormal
  std::uint64_t kept = significand >> dropped;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << dropped) - 1);
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;

  // A carry out of the fraction moves into the exponent field, as it should: up to the next power of
  // two, from subnormal to normal, or to infinity.
  std::uint64_t magnitude = kept;
  if (!subnormal)
    magnitude += static_cast<std::uint64_t>(exponent - format.min_exponent) << format.fraction_bits;
  if (magnitude > special) magnitude = special;
  return static_cast<std::uint16_t>(sign | magnitude);
}

double decode_f16(std::uint16_t half) {
  const std::uint64_t sign = static_cast<std::uint64_t>(half >> 15) << 63;
  const std::uint64_t field = half >> 10 & 0x1f;
  const std::uint64_t fraction = half & 0x3ff;
  if (field == 0) {
    const double magnitude = static_cast<double>(fraction) * 0x1p-24;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint64_t wide_field = field == 0x1f ? 0x7ff : field - 15 + 1023;
  return std::bit_cast<double>(sign | wide_field << 52 | fraction << 42);
}

double decode_bf16(std::uint16_t brain) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16));
}

double decode8(std::uint8_t code, const Format& format) {
  const double sign = code >> 7 != 0 ? -1.0 : 1.0;
  const std::uint32_t magnitude = code & 0x7fu;
  const std::uint32_t special = format.special();
  if (magnitude > special || (magnitude == special && !format.has_infinity))
    return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  if (magnitude == special) return sign * std::numeric_limits<double>::infinity();
  const std::uint32_t hidden = 1u << format.fraction_bits;
  const std::uint32_t fraction = magnitude & (hidden - 1);
  const auto field = static_cast<int>(magnitude >> format.fraction_bits);
  const double significand = field == 0 ? fraction : hidden + fraction;
  return sign *
         std::ldexp(significand, format.min_exponent + (field == 0 ? 0 : field - 1) - format.fraction_bits);
}

// To the nearest of -128 ... 127, ties to even. In place of NaN, of which there is none, stands -128: no
// quantiser writes it, and where a judge has put NaN into what must not be read it still shows.
double whole_number(double value) {
  if (std::isnan(value)) return -128;
  const double clamped = std::clamp(value, -128.0, 127.0), below = std::floor(clamped),
               rest = clamped - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2.0) != 0);
  return up ? below + 1 : below;
}

}  // namespace

double load(const void* data, tessera_dtype dtype, std::int64_t index) {
  switch (dtype) {
    case TESSERA_F32:
      return static_cast<double>(static_cast<const float*>(data)[index]);
    case TESSERA_F16:
      return decode_f16(static_cast<const std::uint16_t*>(data)[index]);
    case TESSERA_BF16:
      return decode_bf16(static_cast<const std::uint16_t*>(data)[index]);
    case TESSERA_F8E4M3:
    case TESSERA_F8E5M2:
      return decode8(static_cast<const std::uint8_t*>(data)[index], format_of(dtype));
    case TESSERA_I8:
      return static_cast<double>(static_cast<const std::int8_t*>(data)[index]);
    default:
      std::abort();
  }
}

void store(void* data, tessera_dtype dtype, std::int64_t index, double value) {
  if (dtype == TESSERA_F32) {
    static_cast<float*>(data)[index] = static_cast<float>(value);
  } else if (dtype == TESSERA_I8) {
    static_cast<std::int8_t*>(data)[index] = static_cast<std::int8_t>(whole_number(value));
  } else if (dtype == TESSERA_F8E4M3 || dtype == TESSERA_F8E5M2) {
    static_cast<std::uint8_t*>(data)[index] = static_cast<std::uint8_t>(encode(value, format_of(dtype)));
  } else {
    static_cast<std::uint16_t*>(data)[index] = encode(value, format_of(dtype));
  }
}

double round_to(tessera_dtype dtype, double value) {
  if (dtype == TESSERA_F32) return static_cast<double>(static_cast<float>(value));
  if (dtype == TESSERA_I8) return whole_number(value);
  const std::uint16_t bits = encode(value, format_of(dtype));
  if (dtype == TESSERA_F16) return decode_f16(bits);
  if (dtype == TESSERA_BF16) return decode_bf16(bits);
  return decode8(static_cast<std::uint8_t>(bits), format_of(dtype));
}

double rounding_step(tessera_dtype dtype, double value) {
  const Format& format = format_of(dtype);
  const double rounded = std::fabs(round_to(dtype, value));
  if (std::isnan(rounded)) return std::numeric_limits<double>::quiet_NaN();
  int exponent = format.min_exponent;
  if (std::isinf(rounded)) {
    exponent = format.max_exponent;
  } else if (rounded > 0 && std::ilogb(rounded) > exponent) {
    exponent = std::ilogb(rounded);
  }
  return std::ldexp(1.0, exponent - format.fraction_bits);
}

}  // namespace tessera::oracle
