// The judges on 8-bit inputs: where a scale is looked up, worked out on paper, and the arithmetic of 8-bit
// tensor cores.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "cases/gates.hpp"
#include "oracle/oracle.hpp"
#include "oracle/plain_fp8.hpp"

namespace {

using namespace tessera;
using oracle::Arithmetic;
using oracle::CodeSpan;

constexpr std::uint8_t kOne = 0x38, kTwo = 0x40;  // e4m3

// One head of one dimension. The query sees exactly one key at a time (a window of one), so that the output
// is that key's value and the lse its score.
struct Paper {
  std::int64_t keys;
  std::vector<std::uint8_t> q, k, v;
  std::vector<float> query_scales, key_scales, value_scales;
  tessera_attention p = TESSERA_ATTENTION_INIT;

  explicit Paper(std::int64_t n)
      : keys(n),
        q(static_cast<std::size_t>(n), kOne),
        k(static_cast<std::size_t>(n), kTwo),
        v(static_cast<std::size_t>(n), kOne) {
    p.scale = 1;
    p.query = tessera_tensor_4d(q.data(), TESSERA_F8E4M3, 1, 1, n, 1);
    p.key = tessera_tensor_4d(k.data(), TESSERA_F8E4M3, 1, 1, n, 1);
    p.value = tessera_tensor_4d(v.data(), TESSERA_F8E4M3, 1, 1, n, 1);
    p.output = tessera_tensor_4d(nullptr, TESSERA_F32, 1, 1, n, 1);
    p.mask.align = TESSERA_ALIGN_TOP_LEFT;
    p.mask.left = p.mask.right = 0;
  }
};

TEST(OracleCodes, AScaleForEachBlock) {
  Paper x(130);
  x.query_scales = {1, 3};  // rows 0-127, 128-129
  x.key_scales = {5, 7};
  x.value_scales = {0.5f, 0.25f};
  x.p.scale_rows = 128;
  x.p.query_scales = tessera_tensor_4d(x.query_scales.data(), TESSERA_F32, 1, 1, 2, 1);
  x.p.key_scales = tessera_tensor_4d(x.key_scales.data(), TESSERA_F32, 1, 1, 2, 1);
  x.p.value_scales = tessera_tensor_4d(x.value_scales.data(), TESSERA_F32, 1, 1, 2, 1);
  for (const Arithmetic a : {Arithmetic::f32, Arithmetic::fp8_accurate, Arithmetic::fp8_fast}) {
    const oracle::Result r = oracle::plain(x.p, a);
    EXPECT_EQ(r.lse[127], 1 * 5 * 2.0);
    EXPECT_EQ(r.lse[128], 3 * 7 * 2.0);
    EXPECT_EQ(r.output[127], 0.5);
    EXPECT_EQ(r.output[128], 0.25);
  }
  const oracle::Result truth = oracle::attend(x.p);
  EXPECT_EQ(truth.lse[127], 10);
  EXPECT_EQ(truth.lse[129], 42);
  EXPECT_EQ(truth.output[0], 0.5);
  EXPECT_EQ(truth.output[129], 0.25);
}

// Keys and values of 8 bits beside a query of floats, which has no scales.
TEST(OracleCodes, ACacheBesideAWideQuery) {
  Paper x(130);
  std::vector<float> q(130, 0.75f);
  std::fill(x.k.begin(), x.k.end(), std::uint8_t{0xfe});  // -2
  std::fill(x.v.begin(), x.v.end(), std::uint8_t{100});
  x.key_scales = {5, 7};  // rows 0-127, 128-129
  x.value_scales = {0.5f, 0.25f};
  x.p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, 130, 1);
  x.p.key.dtype = x.p.value.dtype = TESSERA_I8;
  x.p.scale_rows = 128;
  x.p.key_scales = tessera_tensor_4d(x.key_scales.data(), TESSERA_F32, 1, 1, 2, 1);
  x.p.value_scales = tessera_tensor_4d(x.value_scales.data(), TESSERA_F32, 1, 1, 2, 1);
  for (const oracle::Result& r : {oracle::attend(x.p), oracle::plain(x.p, Arithmetic::fp8_fast)}) {
    EXPECT_EQ(r.lse[127], -7.5);
    EXPECT_EQ(r.lse[128], -10.5);
    EXPECT_EQ(r.output[127], 50);
    EXPECT_EQ(r.output[128], 25);
  }
}

// Blocks are counted from the tensor's first row, not the entry's: entry 1 begins in the middle of block 0.
TEST(OracleCodes, BlocksOfPackedRowsAreTheTensors) {
  Paper x(70);
  std::vector<std::int32_t> offsets = {0, 60, 70};
  x.key_scales = {1, 4};
  x.p.scale_rows = 64;
  x.p.key_scales = tessera_tensor_4d(x.key_scales.data(), TESSERA_F32, 1, 1, 2, 1);
  x.p.query_offsets = x.p.key_offsets = {offsets.data(), TESSERA_I32, 1, {3, 0, 0, 0}, {1, 0, 0, 0}};
  const oracle::Result r = oracle::attend(x.p);
  EXPECT_EQ(r.lse[63], 2);
  EXPECT_EQ(r.lse[64], 8);
}

// Two heads share a key head; scales have a head of the tensor that they scale.
TEST(OracleCodes, HeadsChannelsAndTransposedValues) {
  std::vector<std::uint8_t> q = {kOne, kTwo}, k = {kOne}, v = {kOne, 0, kTwo, 0};  // of v every other one
  std::vector<float> query_scales = {3, 5}, channels = {0.5f, 8};
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.scale = 1;
  p.query = tessera_tensor_4d(q.data(), TESSERA_F8E4M3, 1, 2, 1, 1);
  p.key = tessera_tensor_4d(k.data(), TESSERA_F8E4M3, 1, 1, 1, 1);
  p.value = {v.data(), TESSERA_F8E4M3, 4, {1, 1, 1, 2}, {4, 4, 1, 2}};
  p.output = tessera_tensor_4d(nullptr, TESSERA_F32, 1, 2, 1, 2);
  p.query_scales = tessera_tensor_4d(query_scales.data(), TESSERA_F32, 1, 2, 1, 1);
  p.value_scales = tessera_tensor_4d(channels.data(), TESSERA_F32, 1, 1, 1, 2);
  for (const oracle::Result& r :
       {oracle::attend(p), oracle::plain(p), oracle::plain(p, Arithmetic::fp8_fast)}) {
    EXPECT_EQ(r.lse, (std::vector<double>{3, 10}));
    EXPECT_EQ(r.output, (std::vector<double>{0.5, 16, 0.5, 16}));
  }
}

float sum_of(float accumulator, const std::vector<float>& a, const std::vector<float>& b) {
  return oracle::short_sum(accumulator, {a, TESSERA_F8E4M3}, {b, TESSERA_F8E4M3});
}

// 1 and 2^-13 stand 13 bits apart and both are kept; what is less is cut off, of either sign.
TEST(OracleCodes, ShortSumsKeepThirteenBits) {
  EXPECT_EQ(sum_of(0, {1, 0x1p-6f}, {1, 0x1p-7f}), 1.0f + 0x1p-13f);
  EXPECT_EQ(sum_of(0, {1, 0x1p-6f}, {1, 0x1p-8f}), 1.0f);
  EXPECT_EQ(sum_of(0, {1, 0x1p-6f, -0x1p-6f}, {1, 0x1.8p-7f, 0x1.8p-7f}), 1.0f);
  EXPECT_EQ(sum_of(-1, {0x1p-6f}, {0x1p-8f}), -1.0f);
  const std::vector<float> small(32, 0x1.ep-7f), least(32, 0x1p-8f);
  EXPECT_EQ(sum_of(1, small, least), 1.0f);  // one after the other they would come to nearly 2^-9
  EXPECT_GT(sum_of(0, small, least), 0x1p-10f);
}

// 1.5 * 1.5 counts as 2^0, though it is 2.25, and a subnormal number as the least normal one.
TEST(OracleCodes, ShortSumsGoByTheExponentsOfTheFactors) {
  EXPECT_EQ(sum_of(0x1p-13f, {1.5f}, {1.5f}), 2.25f);  // the sum has 13 bits below 2
  EXPECT_EQ(sum_of(0x1p-13f, {1.5f, -1}, {1.5f, 1}), 1.25f + 0x1p-13f);
  EXPECT_EQ(sum_of(0x1p-26f, {0x1p-9f}, {0x1p-6f}), 0x1p-15f);  // as 2^-12: 2^-25 is the least that counts
  EXPECT_EQ(sum_of(0x1p-25f, {0x1p-9f}, {0x1p-6f}), 0x1p-15f + 0x1p-25f);
}

TEST(OracleCodes, ShortSumsOfWhatIsNotFinite) {
  EXPECT_EQ(sum_of(0, {}, {}), 0.0f);
  EXPECT_EQ(sum_of(0, {1, INFINITY}, {1, 2}), INFINITY);
  EXPECT_TRUE(std::isnan(sum_of(0, {INFINITY, -INFINITY}, {1, 1})));
  EXPECT_TRUE(std::isnan(sum_of(0, {INFINITY}, {0})));
}

// What does not count beside 1 does where it is added up before: in the first half of what Ada multiplies,
// and in another instruction.
TEST(OracleCodes, AdaAddsSixteenProductsAtOnce) {
  std::vector<float> a(64, 0x1p-7f), b(64, 0x1p-7f);
  a[31] = b[31] = 1;
  const CodeSpan x = {a, TESSERA_F8E4M3}, y = {b, TESSERA_F8E4M3};
  EXPECT_EQ(oracle::short_dot(x, y), 1.0f);
  EXPECT_EQ(oracle::ada_dot(x, y), 1.0f + 16 * 0x1p-14f + 32 * 0x1p-14f);
  const std::vector<float> one(17, 1);  // a half and a bit
  EXPECT_EQ(oracle::ada_dot({one, TESSERA_F8E4M3}, {one, TESSERA_F8E4M3}), 17.0f);
}

// Each arithmetic is off by more than the one before it, and none by much; Ada's by about as much as
// Hopper's.
TEST(OracleCodes, EachArithmeticIsAsGoodAsItsName) {
  std::string error;
  const auto c = cases::parse("b1 h2 q64 k512 d128 f8e4m3 scales=block64 transposed out=f32", &error);
  ASSERT_TRUE(c.has_value()) << error;
  const cases::Instance instance(*c, cases::Input::normal, 3);
  const oracle::Result truth = oracle::attend(instance.problem());
  std::vector<double> errors;
  for (const Arithmetic a :
       {Arithmetic::f32, Arithmetic::fp8_accurate, Arithmetic::fp8_fast, Arithmetic::fp8_ada}) {
    const oracle::Result r = oracle::plain(instance.problem(), a);
    double worst = 0;
    for (std::size_t n = 0; n < r.output.size(); ++n)
      worst = std::max(worst, std::fabs(r.output[n] - truth.output[n]));
    errors.push_back(worst);
  }
  EXPECT_LT(errors[0], 1e-5);
  EXPECT_GT(errors[1], 4 * errors[0]);
  EXPECT_LT(errors[1], 5e-3);
  EXPECT_GT(errors[2], 4 * errors[1]);
  EXPECT_LT(errors[2], 5e-2);
  EXPECT_NE(errors[3], errors[1]);
  EXPECT_GT(errors[3], errors[1] / 4);
  EXPECT_LT(errors[3], 4 * errors[1]);
}

}  // namespace
