// tessera_quantise: values that can be checked by hand, every granularity, what is no number, the same bits
// on any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "oracle/oracle.hpp"
#include "quantise/codes.hpp"

namespace tessera {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// An input [outer, heads, rows, dim] and room for everything that can be made of it.
struct Call {
  std::int64_t outer, heads, rows, dim;
  std::vector<float> input;
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales = std::vector<float>(4096, -1.0f), means = std::vector<float>(4096, -1.0f);
  tessera_quantisation q = TESSERA_QUANTISATION_INIT;
  tessera_device device = TESSERA_DEVICE_INIT;

  Call(std::int64_t o, std::int64_t h, std::int64_t r, std::int64_t d, std::vector<float> values)
      : outer(o), heads(h), rows(r), dim(d), input(std::move(values)), bytes(input.size(), 0xee) {
    q.input = tessera_tensor_4d(input.data(), TESSERA_F32, o, h, r, d);
    q.output = tessera_tensor_4d(bytes.data(), TESSERA_F8E4M3, o, h, r, d);
    scale_as(1, 1, 1, 1);
  }
  void scale_as(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    q.scales = tessera_tensor_4d(scales.data(), TESSERA_F32, a, b, c, d);
  }
  void add_means() { q.means = tessera_tensor_4d(means.data(), TESSERA_F32, outer, heads, 1, dim); }
  void run() { ASSERT_EQ(tessera_quantise(&q, &device), TESSERA_OK) << tessera_last_error(); }
  double code(std::size_t n) const {
    return oracle::load(bytes.data(), q.output.dtype, static_cast<std::int64_t>(n));
  }
  double scale_of(std::int64_t o, std::int64_t h, std::int64_t r, std::int64_t d) const {
    const std::int64_t at[4] = {o, h, q.scale_rows == 0 ? 0 : r / q.scale_rows, d};
    std::int64_t offset = 0;
    for (int i = 0; i < 4; ++i) offset += q.scales.shape[i] == 1 ? 0 : at[i] * q.scales.strides[i];
    return scales[static_cast<std::size_t>(offset)];
  }
};

std::vector<float> normal(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& x : values) x = draw(random);
  return values;
}

TEST(Quantise, ByHand) {
  Call c(1, 1, 2, 4, {0, 896, -448, 2, 1, -1, 3, 0.001f});
  c.run();
  EXPECT_EQ(c.scales[0], 2);  // 896 / 448
  const double want[] = {0, 448, -224, 1, 0.5, -0.5, 1.5, 0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(c.code(i), want[i]) << i;
  c.q.output.dtype = TESSERA_F8E5M2;
  c.run();
  EXPECT_EQ(c.scales[0], 896.0f / 57344);  // 2^-6
  EXPECT_EQ(c.code(1), 57344);
  EXPECT_EQ(c.code(3), 128);
}

// Every float near a code, and halfway between two, against the judge's own rounding.
template <class Format>
void expect_rounding(tessera_dtype dtype) {
  for (std::int64_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const auto value = static_cast<float>(oracle::load(&byte, dtype, 0));
    if (!std::isfinite(value)) continue;
    const std::uint8_t up = static_cast<std::uint8_t>(code + 1);
    const auto next = static_cast<float>(oracle::load(&up, dtype, 0));
    std::vector<float> probes = {value, std::nextafter(value, kInf), std::nextafter(value, -kInf)};
    if (std::isfinite(next)) {
      const float half = value + (next - value) / 2;
      for (const float x : {half, std::nextafter(half, kInf), std::nextafter(half, -kInf)})
        probes.push_back(x);
    }
    for (const float x : probes) {
      const double want =
          std::fabs(x) > Format::kLargest ? std::copysign(Format::kLargest, x) : oracle::round_to(dtype, x);
      const std::uint8_t got = codes::encode<Format>(x);
      ASSERT_EQ(oracle::load(&got, dtype, 0), want) << x;
    }
  }
  for (const float x : {kInf, 1e38f, 1e5f}) {
    EXPECT_EQ(codes::encode<Format>(x), Format::kLargestCode);
    EXPECT_EQ(codes::encode<Format>(-x), 0x80 | Format::kLargestCode);
  }
  EXPECT_EQ(codes::encode<Format>(kNan), 0x7f);
  EXPECT_EQ(codes::encode<Format>(-kNan), 0x7f);
  EXPECT_EQ(codes::encode<Format>(-0.0f), 0x80);
  EXPECT_EQ(codes::encode<Format>(1e-40f), 0);
}

TEST(Quantise, RoundsToTheNearestCode) {
  expect_rounding<codes::E4M3>(TESSERA_F8E4M3);
  expect_rounding<codes::E5M2>(TESSERA_F8E5M2);
}

// Whole numbers: halves go to the even one, nothing is below -127, and what is no number becomes 0.
TEST(Quantise, WholeNumbers) {
  for (int n = -127; n <= 127; ++n) {
    const auto x = static_cast<float>(n);
    for (const float near : {x, std::nextafter(x + 0.5f, -kInf), std::nextafter(x - 0.5f, kInf)})
      ASSERT_EQ(static_cast<std::int8_t>(codes::encode<codes::I8>(near)), n) << near;
    const int even = n % 2 == 0 ? n : n + 1;
    ASSERT_EQ(static_cast<std::int8_t>(codes::encode<codes::I8>(x + 0.5f)), std::min(even, 127)) << n;
  }
  for (const float x : {127.4f, 127.5f, 128.0f, 1e38f, kInf}) {
    EXPECT_EQ(static_cast<std::int8_t>(codes::encode<codes::I8>(x)), 127) << x;
    EXPECT_EQ(static_cast<std::int8_t>(codes::encode<codes::I8>(-x)), -127) << x;
  }
  for (const float x : {kNan, -kNan, 0.0f, -0.0f, 1e-40f, -0.5f})
    EXPECT_EQ(codes::encode<codes::I8>(x), 0) << x;
}

TEST(Quantise, WholeNumbersByHand) {
  Call c(1, 1, 2, 4, {0, 254, -127, 3, 1, -kInf, kNan, kInf});
  c.q.output.dtype = TESSERA_I8;
  c.run();
  EXPECT_EQ(c.scales[0], 2);                                // 254 / 127
  const double want[] = {0, 127, -64, 2, 0, -127, 0, 127};  // -63.5, 1.5 and 0.5 to even ones
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(c.code(i), want[i]) << i;
  c.q.hadamard = 1;  // the second row is no row of numbers any more
  c.run();
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(c.code(i), 0) << i;
}

TEST(Quantise, EveryGranularity) {
  const std::int64_t outer = 2, heads = 3, rows = 2070, dim = 8;
  struct {
    std::int64_t shape[4];
    std::int32_t scale_rows;
  } const kinds[] = {{{1, 1, 1, 1}, 0},       {{outer, heads, 1, 1}, 0},   {{1, heads, 1, 1}, 64},
                     {{outer, 1, 1, 1}, 0},   {{outer, heads, 33, 1}, 64}, {{outer, heads, 17, 1}, 128},
                     {{1, heads, 33, 1}, 64}, {{outer, heads, 1, dim}, 0}, {{1, 1, 1, dim}, 128}};
  for (const auto& kind : kinds) {
    Call c(outer, heads, rows, dim, normal(static_cast<std::size_t>(outer * heads * rows * dim)));
    c.scale_as(kind.shape[0], kind.shape[1], kind.shape[2], kind.shape[3]);
    c.q.scale_rows = kind.scale_rows;
    c.run();
    std::vector<double> largest(c.scales.size(), 0);
    std::size_t n = 0;
    for (std::int64_t o = 0; o < outer; ++o)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t d = 0; d < dim; ++d, ++n) {
            const double scale = c.scale_of(o, h, r, d);
            ASSERT_EQ(
                c.code(n),
                oracle::round_to(TESSERA_F8E4M3, static_cast<float>(c.input[n] / static_cast<float>(scale))));
            ASSERT_LE(std::fabs(c.input[n]), scale * 448 * 1.000001);
            const std::int64_t at[4] = {o, h, c.q.scale_rows == 0 ? 0 : r / c.q.scale_rows, d};
            std::int64_t cell = 0;
            for (int i = 0; i < 4; ++i) cell += kind.shape[i] == 1 ? 0 : at[i] * c.q.scales.strides[i];
            double& most = largest[static_cast<std::size_t>(cell)];
            most = std::max<double>(most, std::fabs(c.input[n]));
          }
    const std::int64_t count = kind.shape[0] * kind.shape[1] * kind.shape[2] * kind.shape[3];
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(c.scales[at], static_cast<float>(largest[at]) / 448.0f) << i;
    }
    EXPECT_EQ(c.scales[static_cast<std::size_t>(count)], -1) << "written past its end";
  }
}

TEST(Quantise, ZerosNanAndInfinity) {
  Call c(1, 1, 128, 2, std::vector<float>(256, 0.0f));
  c.scale_as(1, 1, 2, 1);
  c.q.scale_rows = 64;
  c.input[128] = kNan;  // the second block
  c.input[129] = -kInf;
  c.input[130] = kInf;
  c.input[131] = 896;
  c.run();
  EXPECT_EQ(c.scales[0], 1);
  EXPECT_EQ(c.scales[1], 2);
  EXPECT_EQ(c.bytes[0], 0);
  EXPECT_TRUE(std::isnan(c.code(128)));
  EXPECT_EQ(c.code(129), -448);
  EXPECT_EQ(c.code(130), 448);
  EXPECT_EQ(c.code(131), 448);
  c.q.output.dtype = TESSERA_F8E5M2;
  c.run();
  EXPECT_TRUE(std::isnan(c.code(128)));
  EXPECT_EQ(c.code(129), -57344);
}

TEST(Quantise, TinyNumbersKeepAScaleThatDivides) {
  Call c(1, 1, 1, 2, {1e-44f, -1e-44f});
  c.run();
  EXPECT_EQ(c.scales[0], std::numeric_limits<float>::min());
  EXPECT_EQ(c.code(0), 0);
}

TEST(Quantise, Transposed) {
  const std::vector<float> values = normal(2 * 2 * 70 * 24);
  Call rows(2, 2, 70, 24, values), columns(2, 2, 70, 24, values);
  columns.q.output.strides[2] = 1;
  columns.q.output.strides[3] = 70;
  for (Call* each : {&rows, &columns}) {
    each->scale_as(2, 2, 1, 24);
    each->run();
  }
  EXPECT_EQ(rows.scales, columns.scales);
  for (std::size_t head = 0; head < 4; ++head)
    for (std::size_t r = 0; r < 70; ++r)
      for (std::size_t d = 0; d < 24; ++d)
        ASSERT_EQ(rows.bytes[(head * 70 + r) * 24 + d], columns.bytes[(head * 24 + d) * 70 + r]);
}

TEST(Quantise, NarrowInputsAreWhatTheirFloatsAre) {
  for (const tessera_dtype dtype : {TESSERA_F16, TESSERA_BF16}) {
    const std::vector<float> values = normal(3 * 40 * 16);
    std::vector<std::uint16_t> narrow(values.size());
    std::vector<float> wide(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      oracle::store(narrow.data(), dtype, static_cast<std::int64_t>(i), values[i]);
      wide[i] = static_cast<float>(oracle::load(narrow.data(), dtype, static_cast<std::int64_t>(i)));
    }
    Call a(1, 3, 40, 16, wide), b(1, 3, 40, 16, values);
    b.q.input = tessera_tensor_4d(narrow.data(), dtype, 1, 3, 40, 16);
    a.run();
    b.run();
    EXPECT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(a.scales, b.scales);
  }
}

TEST(Quantise, SmoothingSubtractsTheMeansOfChannels) {
  Call c(1, 1, 4, 2, {1, 10, 2, kNan, 3, 30, 6, kInf});
  c.add_means();
  c.run();
  EXPECT_EQ(c.means[0], 3);
  EXPECT_EQ(c.means[1], 20);  // of finite elements
  EXPECT_EQ(c.scales[0], 10.0f / 448);
  EXPECT_EQ(c.code(0), -88);  // -2 / 10 * 448 = -89.6
  EXPECT_EQ(c.code(6), 128);  // 134.4
  EXPECT_EQ(c.code(5), 448);
  EXPECT_TRUE(std::isnan(c.code(3)));
  EXPECT_EQ(c.code(7), 448);
}

// Two roundings of the mean itself; and n^2 2^-48 of the mean magnitude, where n, the most additions that a
// number goes through, is 64 rows, 16 blocks of a chunk and the chunks: each loses 2^-24 of what `low` holds,
// which is n such losses of `high`.
TEST(Quantise, MeansAreAboutAsGoodAsThoseOfDoubles) {
  const std::int64_t rows = 3000, dim = 6;
  std::vector<float> values = normal(static_cast<std::size_t>(rows * dim), 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (i % 6) {
      case 1:  // large ones that cancel
        values[i] += i / 6 % 2 == 0 ? 1e6f : -1e6f;
        break;
      case 2:
        values[i] += 3000;
        break;
      case 3:  // whose sum is no float
        values[i] = 3e38f + values[i] * 1e36f;
        break;
      case 4:
        values[i] *= 1e-42f;
        break;
      case 5:  // of every size
        values[i] = std::ldexp(values[i], static_cast<int>(i / 6 % 200) - 100);
        break;
      default:
        break;
    }
  }
  Call c(1, 1, rows, dim, values);
  c.add_means();
  c.run();
  for (std::int64_t d = 0; d < dim; ++d) {
    long double sum = 0, magnitudes = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const long double x = values[static_cast<std::size_t>(r * dim + d)];
      sum += x;
      magnitudes += std::fabs(x);
    }
    const auto mean = static_cast<double>(sum / rows), magnitude = static_cast<double>(magnitudes / rows);
    const double depth = 64 + 16 + 3, least = 0x1p-149;
    EXPECT_NEAR(c.means[static_cast<std::size_t>(d)], mean,
                0x1.01p-23 * std::fabs(mean) + depth * depth * 0x1p-48 * magnitude + least)
        << d;
  }
}

TEST(Quantise, AMeanOfTheLargestFloatsIsFinite) {
  for (const std::int64_t rows : {1, 3, 70, 2049}) {
    Call c(1, 1, rows, 1,
           std::vector<float>(static_cast<std::size_t>(rows), std::numeric_limits<float>::max()));
    c.add_means();
    c.run();
    EXPECT_NEAR(c.means[0] / std::numeric_limits<float>::max(), 1, 0x1p-23) << rows;
    EXPECT_TRUE(std::isfinite(c.means[0])) << rows;
  }
}

TEST(Quantise, HadamardIsARotation) {
  Call c(1, 1, 3, 4, {1, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, kInf});
  c.q.hadamard = 1;
  c.scale_as(1, 1, 1, 1);
  c.run();
  EXPECT_EQ(c.scales[0], 5.0f / 448);  // (1 + 2 + 3 + 4) / 2
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(c.code(i) * c.scales[0], 0.5, 0.02);
  const double want[] = {5, -1, -2, 0};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(c.code(4 + i) * c.scales[0], want[i], 0.1) << i;
  EXPECT_TRUE(std::isinf(c.input[11]));
  EXPECT_TRUE(std::isnan(c.code(11)) || std::fabs(c.code(11)) == 448);
}

TEST(Quantise, TheSameBitsOnAnyNumberOfThreads) {
  const std::vector<float> values = normal(2 * 3 * 3000 * 32, 5);
  std::vector<Call> calls;
  for (const int threads : {1, 2, 7, 1}) {
    Call& c = calls.emplace_back(2, 3, 3000, 32, values);
    c.q.input.data = c.input.data();
    c.device.threads = threads;
  }
  for (Call& c : calls) {
    c.q.input.data = c.input.data();
    c.q.output.data = c.bytes.data();
    c.scale_as(2, 3, 47, 1);
    c.q.scale_rows = 64;
    c.q.hadamard = 1;
    c.add_means();
    c.run();
    EXPECT_EQ(c.bytes, calls[0].bytes);
    EXPECT_EQ(c.scales, calls[0].scales);
    EXPECT_EQ(c.means, calls[0].means);
  }
}

TEST(Quantise, NothingToQuantise) {
  Call c(1, 2, 0, 8, {});
  c.add_means();
  c.run();
  EXPECT_EQ(c.scales[0], 1);
  EXPECT_EQ(c.means[15], 0);
}

TEST(Quantise, FromCpp) {
  const std::vector<float> x = {448, -224};
  std::vector<f8e4m3> bytes(2);
  float scale = 0;
  const Status status = quantise(Quantisation{.input = tensor(x.data(), {1, 1, 1, 2}),
                                              .output = tensor(bytes.data(), {1, 1, 1, 2}),
                                              .scales = tensor(&scale, {1, 1, 1, 1})},
                                 cpu());
  ASSERT_TRUE(status) << status.message();
  EXPECT_EQ(scale, 1);
  EXPECT_EQ(bytes[0].bits, 0x7e);
  EXPECT_EQ(bytes[1].bits, 0xf6);
}

}  // namespace
}  // namespace tessera
