// The arithmetic of quantising, for CPUs and GPUs alike, so that both make the same bits: floats as 8-bit
// codes, scales, and sums for the means. Includes nothing, because kernels include it; and nowhere does a sum
// take a product whose rounding a fused multiply-add would leave out.
#pragma once

#if defined(__CUDACC__)
#define TESSERA_CODES_FUNCTION __host__ __device__ inline
#else
#define TESSERA_CODES_FUNCTION inline
#endif

namespace tessera::codes {

TESSERA_CODES_FUNCTION unsigned bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return __builtin_bit_cast(unsigned, x);
#endif
}
TESSERA_CODES_FUNCTION float float_of(unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

inline constexpr float kLargestFloat = 0x1.fffffep127f;
inline constexpr float kLeastNormalFloat = 0x1p-126f;

TESSERA_CODES_FUNCTION float magnitude_of(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

// Fraction bits, exponent bias and largest number of a format.
struct E4M3 {
  static constexpr int kFraction = 3, kBias = 7;
  static constexpr float kLargest = 448;
  static constexpr unsigned kLargestCode = 0x7e;
};
struct E5M2 {
  static constexpr int kFraction = 2, kBias = 15;
  static constexpr float kLargest = 57344;
  static constexpr unsigned kLargestCode = 0x7b;
};

// Whole numbers; -128 is left out, so that the range is the same on both sides. There is no NaN: 0 stands for
// it.
struct I8 {
  static constexpr float kLargest = 127;
};

inline constexpr unsigned kNanCode = 0x7f;  // of both formats

// To the nearest, ties to even; what lies beyond the largest number, infinity too, becomes that number. Of
// NaN the sign is dropped: which one arithmetic gives it is the processor's choice.
template <class Format>
TESSERA_CODES_FUNCTION unsigned char encode(float x) {
  constexpr int kDropped = 23 - Format::kFraction;
  constexpr unsigned kRebias = unsigned{127 - Format::kBias} << 23;
  constexpr unsigned kLeastNormal = kRebias + (1u << 23);
  // A float whose last place is worth as much as that of a subnormal code.
  constexpr unsigned kUnits = unsigned{127 + 1 - Format::kBias + kDropped} << 23;
  const unsigned bits = bits_of(x);
  const unsigned sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned char>(kNanCode);
  unsigned code = 0;
  if (magnitude >= bits_of(Format::kLargest)) {
    code = Format::kLargestCode;
  } else if (magnitude < kLeastNormal) {
    code = bits_of(float_of(magnitude) + float_of(kUnits)) - kUnits;
  } else {
    const unsigned half = (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1u);
    code = (magnitude - kRebias + half) >> kDropped;
  }
  return static_cast<unsigned char>(sign | code);
}

// The largest magnitude / the format's largest number. Never below the least normal float, so that dividing
// by it means something; 1 where there is nothing but zeros.
TESSERA_CODES_FUNCTION float scale_of(float largest, float format_largest) {
  if (largest == 0) return 1;
  const float scale = largest / format_largest;
  return scale < kLeastNormalFloat ? kLeastNormalFloat : scale;
}

// The order in which the rows of a head are added up: in blocks of so many, row by row; the blocks of a chunk
// in their order; then the chunks in theirs.
inline constexpr int kSumRows = 64;
inline constexpr int kChunkRows = 1024;  // a multiple of every scale_rows, too

// Finite numbers of a channel, as pairs of floats: of an addition `high` is the result, and what that lost is
// added to `low`. So a sum is about as good as one of doubles, which some GPUs hardly have. Numbers whose
// sums might overflow are summed apart, made smaller.
struct Sum {
  float high, low;
  float huge_high, huge_low;  // of numbers from kHuge on, times kSmaller
  long long left_out;         // NaN and infinity
};
inline constexpr float kHuge = 0x1p80f, kSmaller = 0x1p-80f;

TESSERA_CODES_FUNCTION void add(float x, float* high, float* low) {
  const float sum = *high + x, moved = sum - *high;
  *low += (*high - (sum - moved)) + (x - moved);
  *high = sum;
}
TESSERA_CODES_FUNCTION void add(float x, Sum* to) {
  const float magnitude = magnitude_of(x);
  if (magnitude < kHuge)
    add(x, &to->high, &to->low);
  else if (magnitude <= kLargestFloat)
    add(x * kSmaller, &to->huge_high, &to->huge_low);
  else
    ++to->left_out;
}
TESSERA_CODES_FUNCTION void add(const Sum& sum, Sum* to) {
  add(sum.high, &to->high, &to->low);
  to->low += sum.low;
  add(sum.huge_high, &to->huge_high, &to->huge_low);
  to->huge_low += sum.huge_low;
  to->left_out += sum.left_out;
}

TESSERA_CODES_FUNCTION float finite(float x) {
  return x > kLargestFloat ? kLargestFloat : x < -kLargestFloat ? -kLargestFloat : x;
}
// Over the finite ones of `rows` numbers; 0 where there are none.
TESSERA_CODES_FUNCTION float mean_of(const Sum& sum, long long rows) {
  const long long counted = rows - sum.left_out;
  if (counted == 0) return 0;
  const auto count = static_cast<float>(counted);
  const float mean = (sum.high + sum.low) / count;
  const float huge = finite((sum.huge_high + sum.huge_low) / count / kSmaller);
  return finite(mean + huge);
}

template <>
TESSERA_CODES_FUNCTION unsigned char encode<I8>(float x) {
  // A float whose last place is worth 1, above as many as there are whole numbers below 0.
  constexpr float kUnits = 0x1.8p23f;
  if (x != x) return 0;
  const float clamped = x > I8::kLargest ? I8::kLargest : x < -I8::kLargest ? -I8::kLargest : x;
  return static_cast<unsigned char>(bits_of(clamped + kUnits));
}

}  // namespace tessera::codes
