// The judges' own floats of 16 and 8 bits, against bit patterns worked out from the definition of the
// formats.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "oracle/oracle.hpp"

namespace {

using tessera::oracle::load;
using tessera::oracle::round_to;
using tessera::oracle::rounding_step;
using tessera::oracle::store;

std::uint16_t bits(tessera_dtype dtype, double value) {
  std::uint16_t out = 0;
  store(&out, dtype, 0, value);
  return out;
}

TEST(Dtypes, F16) {
  EXPECT_EQ(bits(TESSERA_F16, 0.0), 0x0000);
  EXPECT_EQ(bits(TESSERA_F16, -0.0), 0x8000);
  EXPECT_EQ(bits(TESSERA_F16, 1.0), 0x3c00);
  EXPECT_EQ(bits(TESSERA_F16, -2.0), 0xc000);
  EXPECT_EQ(bits(TESSERA_F16, 0.1), 0x2e66);  // 1.6 * 2^-4: fraction 0.6 * 1024 = 614.4 -> 614 = 0x266
  EXPECT_EQ(bits(TESSERA_F16, 65504.0), 0x7bff);
  EXPECT_EQ(bits(TESSERA_F16, 65519.999), 0x7bff);
  EXPECT_EQ(bits(TESSERA_F16, 65520.0), 0x7c00);  // halfway to 65536, and even is up: infinity
  EXPECT_EQ(bits(TESSERA_F16, 1e300), 0x7c00);
  EXPECT_EQ(bits(TESSERA_F16, -INFINITY), 0xfc00);
  EXPECT_TRUE(std::isnan(round_to(TESSERA_F16, NAN)));
}

TEST(Dtypes, F16TiesGoToEven) {
  EXPECT_EQ(bits(TESSERA_F16, 1 + 0x1p-11), 0x3c00);
  EXPECT_EQ(bits(TESSERA_F16, 1 + 3 * 0x1p-11), 0x3c02);
  // Not a tie in float64, though it would be one after a detour through float32.
  EXPECT_EQ(bits(TESSERA_F16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(bits(TESSERA_F16, 2 - 0x1p-12), 0x4000);  // carries into the exponent
}

TEST(Dtypes, F16Subnormals) {
  EXPECT_EQ(bits(TESSERA_F16, 0x1p-14), 0x0400);  // smallest normal
  EXPECT_EQ(bits(TESSERA_F16, 0x1p-24), 0x0001);  // smallest subnormal
  EXPECT_EQ(bits(TESSERA_F16, 0x1p-25), 0x0000);  // half of it: tie to even
  EXPECT_EQ(bits(TESSERA_F16, 0x1.001p-25), 0x0001);
  EXPECT_EQ(bits(TESSERA_F16, 3 * 0x1p-25), 0x0002);
  EXPECT_EQ(bits(TESSERA_F16, 0x1p-14 - 0x1p-26), 0x0400);  // rounds up from subnormal to normal
  EXPECT_EQ(bits(TESSERA_F16, -1e-300), 0x8000);
}

TEST(Dtypes, Bf16) {
  EXPECT_EQ(bits(TESSERA_BF16, 1.0), 0x3f80);
  EXPECT_EQ(bits(TESSERA_BF16, 1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(bits(TESSERA_BF16, 1 + 3 * 0x1p-8), 0x3f82);
  EXPECT_EQ(bits(TESSERA_BF16, 1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(bits(TESSERA_BF16, -0.15625), 0xbe20);
  EXPECT_EQ(bits(TESSERA_BF16, 0x1.fep127), 0x7f7f);
  EXPECT_EQ(bits(TESSERA_BF16, 0x1.ffp127), 0x7f80);
  EXPECT_EQ(bits(TESSERA_BF16, 0x1p-133), 0x0001);
  EXPECT_EQ(bits(TESSERA_BF16, 0x1p-134), 0x0000);
  EXPECT_TRUE(std::isnan(round_to(TESSERA_BF16, NAN)));
}

std::uint8_t code(tessera_dtype dtype, double value) {
  std::uint8_t out = 0;
  store(&out, dtype, 0, value);
  return out;
}

// Sign, four bits of exponent with a bias of 7, three of fraction; no infinity, and 448 is the largest
// number.
TEST(Dtypes, F8E4M3) {
  EXPECT_EQ(code(TESSERA_F8E4M3, 0.0), 0x00);
  EXPECT_EQ(code(TESSERA_F8E4M3, -0.0), 0x80);
  EXPECT_EQ(code(TESSERA_F8E4M3, 1.0), 0x38);
  EXPECT_EQ(code(TESSERA_F8E4M3, -1.75), 0xbe);
  EXPECT_EQ(code(TESSERA_F8E4M3, 0x1p-6), 0x08);   // smallest normal
  EXPECT_EQ(code(TESSERA_F8E4M3, 0x1p-9), 0x01);   // smallest subnormal
  EXPECT_EQ(code(TESSERA_F8E4M3, 0x1p-10), 0x00);  // half of it: tie to even
  EXPECT_EQ(code(TESSERA_F8E4M3, 1.0625), 0x38);   // ties: 1 and 1.25 are even
  EXPECT_EQ(code(TESSERA_F8E4M3, 1.1875), 0x3a);
  EXPECT_EQ(code(TESSERA_F8E4M3, 448.0), 0x7e);
  EXPECT_EQ(code(TESSERA_F8E4M3, 464.0), 0x7e);  // halfway to what would be 480
  EXPECT_EQ(code(TESSERA_F8E4M3, 464.1), 0x7f);
  EXPECT_EQ(code(TESSERA_F8E4M3, 1e300), 0x7f);
  EXPECT_EQ(code(TESSERA_F8E4M3, -INFINITY), 0xff);
  EXPECT_TRUE(std::isnan(round_to(TESSERA_F8E4M3, NAN)));
  EXPECT_EQ(rounding_step(TESSERA_F8E4M3, 1.0), 0.125);
  EXPECT_EQ(rounding_step(TESSERA_F8E4M3, 0.0), 0x1p-9);
}

// Five bits of exponent with a bias of 15, two of fraction, infinity and NaN as IEEE has them.
TEST(Dtypes, F8E5M2) {
  EXPECT_EQ(code(TESSERA_F8E5M2, 1.0), 0x3c);
  EXPECT_EQ(code(TESSERA_F8E5M2, -1.5), 0xbe);
  EXPECT_EQ(code(TESSERA_F8E5M2, 0x1p-14), 0x04);
  EXPECT_EQ(code(TESSERA_F8E5M2, 0x1p-16), 0x01);
  EXPECT_EQ(code(TESSERA_F8E5M2, 0x1p-17), 0x00);
  EXPECT_EQ(code(TESSERA_F8E5M2, 57344.0), 0x7b);
  EXPECT_EQ(code(TESSERA_F8E5M2, 61439.9), 0x7b);
  EXPECT_EQ(code(TESSERA_F8E5M2, 61440.0), 0x7c);
  EXPECT_EQ(code(TESSERA_F8E5M2, -INFINITY), 0xfc);
  EXPECT_TRUE(std::isnan(round_to(TESSERA_F8E5M2, NAN)));
  EXPECT_EQ(rounding_step(TESSERA_F8E5M2, 1.0), 0.25);
}

// Whole numbers; in place of NaN stands the one that quantisers never write.
TEST(Dtypes, I8) {
  for (int n = -128; n <= 127; ++n) {
    const auto in = static_cast<std::int8_t>(n);
    ASSERT_EQ(load(&in, TESSERA_I8, 0), n);
    ASSERT_EQ(code(TESSERA_I8, n), static_cast<std::uint8_t>(in));
  }
  EXPECT_EQ(round_to(TESSERA_I8, 2.5), 2);
  EXPECT_EQ(round_to(TESSERA_I8, 3.5), 4);
  EXPECT_EQ(round_to(TESSERA_I8, -2.5), -2);
  EXPECT_EQ(round_to(TESSERA_I8, -3.6), -4);
  EXPECT_EQ(round_to(TESSERA_I8, 1e300), 127);
  EXPECT_EQ(round_to(TESSERA_I8, -INFINITY), -128);
  EXPECT_EQ(round_to(TESSERA_I8, NAN), -128);
}

TEST(Dtypes, EveryCodeSurvivesARoundTrip) {
  for (tessera_dtype dtype : {TESSERA_F8E4M3, TESSERA_F8E5M2}) {
    int nans = 0, infinities = 0;
    for (std::uint32_t pattern = 0; pattern < 256; ++pattern) {
      const auto in = static_cast<std::uint8_t>(pattern);
      const double value = load(&in, dtype, 0);
      nans += std::isnan(value);
      infinities += std::isinf(value);
      if (std::isnan(value)) continue;
      ASSERT_EQ(code(dtype, value), in);
    }
    EXPECT_EQ(nans, dtype == TESSERA_F8E4M3 ? 2 : 6);
    EXPECT_EQ(infinities, dtype == TESSERA_F8E4M3 ? 0 : 2);
  }
}

TEST(Dtypes, EveryPatternSurvivesARoundTrip) {
  for (tessera_dtype dtype : {TESSERA_F16, TESSERA_BF16}) {
    for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
      const auto in = static_cast<std::uint16_t>(pattern);
      const double value = load(&in, dtype, 0);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(round_to(dtype, value)));
      } else {
        ASSERT_EQ(bits(dtype, value), in);
      }
    }
  }
}

TEST(Dtypes, RoundingSteps) {
  EXPECT_EQ(rounding_step(TESSERA_F32, 1.0), 0x1p-23);
  EXPECT_EQ(rounding_step(TESSERA_F32, -3.0), 0x1p-22);
  EXPECT_EQ(rounding_step(TESSERA_F32, 0.0), 0x1p-149);
  EXPECT_EQ(rounding_step(TESSERA_F16, 1.0), 0x1p-10);
  EXPECT_EQ(rounding_step(TESSERA_F16, 0.999), 0x1p-11);
  EXPECT_EQ(rounding_step(TESSERA_F16, 0.99999), 0x1p-10);  // rounds to 1 first
  EXPECT_EQ(rounding_step(TESSERA_F16, 0.0), 0x1p-24);
  EXPECT_EQ(rounding_step(TESSERA_F16, 1e-6), 0x1p-24);
  EXPECT_EQ(rounding_step(TESSERA_BF16, 1.0), 0x1p-7);
}

}  // namespace
