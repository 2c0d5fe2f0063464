// f32, f16 and bf16 as the judges read and write them: from the definitions of the formats, one
// rounding (to nearest, ties to even) straight from float64, subnormals, infinities and NaN included.
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
};
constexpr Format kF32{23, -126, 127};
constexpr Format kF16{10, -14, 15};
constexpr Format kBf16{7, -126, 127};

const Format& format_of(tessera_dtype dtype) {
  switch (dtype) {
    case TESSERA_F32:
      return kF32;
    case TESSERA_F16:
      return kF16;
    case TESSERA_BF16:
      return kBf16;
    default:
      std::abort();  // the problem was not validated
  }
}

// The bits of value in a 16-bit format: sign, exponent field, fraction.
std::uint16_t encode16(double value, const Format& format) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << 15);
  const auto infinity = static_cast<std::uint32_t>(format.max_exponent - format.min_exponent + 2)
                        << format.fraction_bits;
  if (std::isnan(value))
    return static_cast<std::uint16_t>(sign | infinity | 1u << (format.fraction_bits - 1));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);

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
  if (magnitude > infinity) magnitude = infinity;
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

}  // namespace

double load(const void* data, tessera_dtype dtype, std::int64_t index) {
  switch (dtype) {
    case TESSERA_F32:
      return static_cast<double>(static_cast<const float*>(data)[index]);
    case TESSERA_F16:
      return decode_f16(static_cast<const std::uint16_t*>(data)[index]);
    case TESSERA_BF16:
      return decode_bf16(static_cast<const std::uint16_t*>(data)[index]);
    default:
      std::abort();
  }
}

void store(void* data, tessera_dtype dtype, std::int64_t index, double value) {
  if (dtype == TESSERA_F32) {
    static_cast<float*>(data)[index] = static_cast<float>(value);
  } else {
    static_cast<std::uint16_t*>(data)[index] = encode16(value, format_of(dtype));
  }
}

double round_to(tessera_dtype dtype, double value) {
  if (dtype == TESSERA_F32) return static_cast<double>(static_cast<float>(value));
  const std::uint16_t bits = encode16(value, format_of(dtype));
  return dtype == TESSERA_F16 ? decode_f16(bits) : decode_bf16(bits);
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
