// 8-bit floats: every code both ways, who holds which element, and how the tensor cores sum them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "emulator/exec/lanes/table.hpp"
#include "emulator/exec/random.hpp"
#include "emulator/exec/tensor_map.hpp"
#include "emulator/tests/snippet.hpp"

namespace emulator {
namespace {

// The number that a code stands for, by the formats' definitions; NaN and infinity, too.
float number(unsigned code, bool is_e5m2) {
  const unsigned bits = is_e5m2 ? 2 : 3, field = (code & 0x7fu) >> bits, fraction = code & ((1u << bits) - 1);
  const int bias = is_e5m2 ? 15 : 7;
  const float sign = (code & 0x80u) != 0 ? -1.0f : 1.0f;
  if (is_e5m2 ? field == 31 : (code & 0x7fu) == 0x7fu)
    return is_e5m2 && fraction == 0 ? sign * INFINITY : NAN;
  const int exponent = (field == 0 ? 1 : static_cast<int>(field)) - bias - static_cast<int>(bits);
  return sign * std::ldexp(static_cast<float>(fraction + (field == 0 ? 0 : 1u << bits)), exponent);
}
unsigned largest(bool is_e5m2) { return is_e5m2 ? 0x7b : 0x7e; }

// Both halves of an instruction's result, for pairs of words as operands.
std::vector<std::uint32_t> convert(const std::string& instruction,
                                   const std::vector<std::uint32_t>& operands) {
  const std::size_t threads = operands.size() / 2;
  Snippet snippet(
      "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1;\n"
      "mul.wide.u32 %rd2, %r1, 8; add.s64 %rd2, %rd2, %rd1; ld.global.v2.b32 {%r10, %r11}, [%rd2];\n" +
      instruction + "\nst.global.b32 [%rd2], %r12;");
  EXPECT_EQ(threads % 32, 0u);
  const auto words = snippet.run(static_cast<unsigned>(threads / 32), 32, operands.size(), 0, operands);
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < threads; ++i) out.push_back(words[2 * i]);
  return out;
}
std::string type_of(bool is_e5m2) { return is_e5m2 ? "e5m2x2" : "e4m3x2"; }

std::uint32_t half_of(float x) {  // of those that f16 has
  if (x != x) return 0x7fff;
  return static_cast<std::uint32_t>(std::bit_cast<std::uint16_t>(static_cast<_Float16>(x)));
}

TEST(Float8, EveryCodeBothWays) {
  for (const bool is_e5m2 : {false, true}) {
    std::vector<std::uint32_t> codes, floats, halves;
    for (unsigned code = 0; code < 256; ++code) {
      const float other = number(255 - code, is_e5m2), mine = number(code, is_e5m2);
      codes.insert(codes.end(), {code | (255 - code) << 8, 0});
      floats.insert(floats.end(), {std::bit_cast<std::uint32_t>(other), std::bit_cast<std::uint32_t>(mine)});
      halves.insert(halves.end(), {half_of(mine) | half_of(other) << 16, 0});
    }
    const std::string type = type_of(is_e5m2);
    const auto wide = convert("cvt.u16.u32 %rs1, %r10; cvt.rn.f16x2." + type + " %r12, %rs1;", codes);
    const auto of_floats =
        convert("cvt.rn.satfinite." + type + ".f32 %rs1, %r10, %r11; cvt.u32.u16 %r12, %rs1;", floats);
    const auto of_halves =
        convert("cvt.rn.satfinite." + type + ".f16x2 %rs1, %r10; cvt.u32.u16 %r12, %rs1;", halves);
    for (unsigned code = 0; code < 256; ++code) {
      const auto back = [&](unsigned x) {
        const float value = number(x, is_e5m2);
        if (value != value) return 0x7fu;
        return std::isinf(value) ? (x & 0x80u) | largest(is_e5m2) : x;
      };
      EXPECT_EQ(wide[code], halves[2 * code]) << code << " of " << type;
      EXPECT_EQ(of_floats[code], back(code) | back(255 - code) << 8) << code << " of " << type;
      EXPECT_EQ(of_halves[code], back(code) | back(255 - code) << 8) << code << " of " << type;
    }
  }
}

// Between two neighbours: half way to the even one, else to the nearer; above the largest: the largest.
TEST(Float8, RoundedToNearestEvenAndSaturated) {
  for (const bool is_e5m2 : {false, true}) {
    std::vector<std::uint32_t> operands, wanted;
    const auto add = [&](float x, unsigned code) {
      operands.insert(operands.end(), {std::bit_cast<std::uint32_t>(x), std::bit_cast<std::uint32_t>(-x)});
      wanted.push_back(code << 8 | code | 0x80u);
    };
    for (unsigned code = 0; code < largest(is_e5m2); ++code) {
      const float tie = (number(code, is_e5m2) + number(code + 1, is_e5m2)) / 2;
      add(tie, code % 2 == 0 ? code : code + 1);
      add(std::nextafter(tie, 0.0f), code);
      add(std::nextafter(tie, INFINITY), code + 1);
    }
    const float most = number(largest(is_e5m2), is_e5m2);
    for (const float x : {most * 1.01f, most * 2, 0x1p100f, INFINITY}) add(x, largest(is_e5m2));
    for (const float x : {0x1p-149f, 0x1p-100f, 0x1p-24f}) add(x, 0);
    while (wanted.size() % 32 != 0) add(0.0f, 0);
    const auto got = convert(
        "cvt.rn.satfinite." + type_of(is_e5m2) + ".f32 %rs1, %r10, %r11; cvt.u32.u16 %r12, %rs1;", operands);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(got[i], wanted[i]) << std::bit_cast<float>(operands[2 * i]) << " to " << type_of(is_e5m2);
  }
}

// Small integers, whose sums are exact: which lane holds which element.
TEST(Float8, FragmentsOfMma) {
  unsigned a[16][32], b[32][8];
  Random random(3);
  for (auto& row : a)
    for (auto& x : row) x = random.below(5);
  for (auto& row : b)
    for (auto& x : row) x = random.below(5);
  const auto code = [](unsigned x, bool is_e5m2) {  // of 0 to 4
    unsigned out = 0;
    while (number(out, is_e5m2) != static_cast<float>(x)) ++out;
    return out;
  };
  for (const int arch : {89, 90})
    for (const bool is_e5m2 : {false, true}) {
      std::vector<std::uint32_t> words(32 * 16);
      for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned k = 0; k < 4; ++k) {
          const unsigned g = lane / 4, at = lane % 4 * 4 + k;
          for (unsigned r = 0; r < 4; ++r)
            words[lane * 16 + r] |= code(a[g + r % 2 * 8][at + r / 2 * 16], false) << 8 * k;
          for (unsigned r = 0; r < 2; ++r)
            words[lane * 16 + 4 + r] |= code(b[at + r * 16][g], is_e5m2) << 8 * k;
        }
      Snippet snippet(
          "mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 64; add.s64 %rd2, %rd2, %rd1;\n"
          "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd2]; ld.global.v2.b32 {%r14, %r15}, [%rd2+16];\n"
          "mov.b32 %r16, 0f3f800000;\nmma.sync.aligned.m16n8k32.row.col.f32.e4m3." +
              std::string(is_e5m2 ? "e5m2" : "e4m3") +
              ".f32 {%r20, %r21, %r22, %r23}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16, %r16, %r16, "
              "%r16};\n"
              "st.global.v4.b32 [%rd2+32], {%r20, %r21, %r22, %r23};",
          arch);
      const auto got = snippet.run(1, 32, words.size(), 0, words);
      for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned r = 0; r < 4; ++r) {
          float sum = 1;
          for (unsigned k = 0; k < 32; ++k)
            sum += static_cast<float>(a[lane / 4 + r / 2 * 8][k] * b[k][lane % 4 * 2 + r % 2]);
          EXPECT_EQ(std::bit_cast<float>(got[lane * 16 + 8 + r]), sum)
              << "lane " << lane << ", register " << r;
        }
    }
}

TEST(Float8, FormsThatDoNotExist) {
  const std::string registers =
      "{%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r1, %r2, %r3, %r4};";
  EXPECT_NE(Snippet("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 " + registers, 80)
                .report(32)
                .find("8-bit floats need sm_89"),
            std::string::npos);
  for (const std::string form : {"m16n8k32.row.col.f32.e4m3.f16.f32", "m16n8k16.row.col.f32.e4m3.e4m3.f32"})
    EXPECT_NE(Snippet("mma.sync.aligned." + form + " " + registers).report(32).find("not known"),
              std::string::npos);
  // Operands that would transpose.
  EXPECT_NE(
      Snippet("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%r1, %r2, %r3, %r4}, %rd2, %rd3, 1, 1, "
              "1, 0, 0;")
          .report(128)
          .find("has 8 operands"),
      std::string::npos);
}

// A tensor map over nothing: the copy is refused before it reads.
TEST(Float8, ABoxOfATensorStartsAtAMultipleOf16Bytes) {
  TensorMap map;
  map.element = TensorElement::kUint8;
  map.element_bytes = 1;
  map.rank = 1;
  map.extents = {256, 0, 0, 0, 0};
  map.box = {64, 0, 0, 0, 0};
  std::vector<std::uint32_t> words(sizeof map / 4);
  std::memcpy(words.data(), &map, sizeof map);
  for (const std::string at : {"24", "-8"}) {
    Snippet snippet("mov.u32 %r1, shared; add.s32 %r2, %r1, 256; mov.u32 %r3, " + at +
                    "; mbarrier.init.shared::cta.b64 [%r2], 1;\n"
                    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], "
                    "[%rd1, {%r3}], [%r2];");
    std::string report;
    try {
      snippet.run(1, 1, words.size(), 512, words);
    } catch (const std::exception& error) {
      report = error.what();
    }
    EXPECT_NE(report.find("coordinate " + at + " of its rows, which is not at a multiple of 16 bytes"),
              std::string::npos)
        << report;
  }
}

// One element: c + the products a[k] * b[k].
using Codes = std::initializer_list<std::pair<unsigned, unsigned>>;
std::uint32_t sum(MultiplyTile8 multiply, float c, Codes products, Kinds8 kinds = {}, int chunk = 32) {
  std::uint8_t a[16 * 32] = {}, b[8 * 32] = {};
  float d[128] = {c};
  int k = 0;
  for (const auto& [x, y] : products)
    a[k] = static_cast<std::uint8_t>(x), b[k++] = static_cast<std::uint8_t>(y);
  TensorCore numbers;
  numbers.chunk_8 = chunk;
  const bool widened = multiply == best_lanes().multiply_8_widened;
  multiply(a, b, d, 8, kinds, widened ? numbers : numbers.of_8_bits());
  return std::bit_cast<std::uint32_t>(d[0]);
}
float narrow_sum(float c, Codes products, int chunk = 32) {
  return std::bit_cast<float>(sum(best_lanes().multiply_8, c, products, {}, chunk));
}
constexpr unsigned kOne = 0x38, kMinus = 0x80;  // e4m3
constexpr unsigned power(int e) { return static_cast<unsigned>(e + 7) << 3; }

TEST(Float8, ThirteenFractionBits) {
  EXPECT_EQ(narrow_sum(0x1p-13f, {{kOne, kOne}}), 1 + 0x1p-13f);
  EXPECT_EQ(narrow_sum(0x1.fp-14f, {{kOne, kOne}}), 1.0f);
  EXPECT_EQ(narrow_sum(1, {{power(-6), power(-6)}, {power(-6), power(-8 + 7)}}), 1 + 0x1p-12f + 0x1p-7f);
  // 2^-14 twice: each is cut off.
  EXPECT_EQ(narrow_sum(64, {{power(-4), power(-4)}, {power(-4), power(-4)}}), 64.0f);
  EXPECT_EQ(narrow_sum(-64, {{power(-4), power(-4) | kMinus}, {power(-4), power(-4) | kMinus}}), -64.0f);
  // The sum has 13 bits again: 2 + 2^-13 has not.
  EXPECT_EQ(narrow_sum(0x1p-13f, {{kOne, kOne}, {kOne, kOne}}), 2.0f);
  EXPECT_EQ(narrow_sum(1 + 0x1p-23f, {}), 1.0f);
  // 1.5 * 1.5 counts as 2^0, so that 2^-13 beside it is kept.
  EXPECT_EQ(narrow_sum(0x1p-13f, {{0x3c, 0x3c}, {0x3c, kOne | kMinus}}), 0.75f + 0x1p-13f);
}

TEST(Float8, SubnormalNumbersHaveTheSmallestExponent) {
  EXPECT_EQ(narrow_sum(0x1p-19f, {{1, kOne}}), 0x1p-9f + 0x1p-19f);
  EXPECT_EQ(narrow_sum(0x1p-20f, {{1, kOne}}), 0x1p-9f);
  EXPECT_EQ(narrow_sum(0x1p-139f, {}), 0x1p-139f);
  EXPECT_EQ(narrow_sum(0x1p-140f, {}), 0.0f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(narrow_sum(-0.0f, {{kMinus, kOne}})), 0u);
}

// 2^16 and -2^16 first and last: what is between them is cut where all 32 are summed together.
TEST(Float8, AllAreSummedTogether) {
  const std::pair<unsigned, unsigned> large{power(8), power(8)}, back{power(8), power(8) | kMinus},
      zero{0, 0}, one{kOne, kOne};
  const Codes products = {large, one,  zero, zero, zero, zero, zero, zero, zero, zero,
                          zero,  zero, zero, zero, zero, zero, back, one,  zero, zero};
  EXPECT_EQ(narrow_sum(0, products), 0.0f);
  EXPECT_EQ(narrow_sum(0, products, 16), 0.0f);
  const Codes apart = {large, back, zero, zero, zero, zero, zero, zero, zero,
                       zero,  zero, zero, zero, zero, zero, zero, one};
  EXPECT_EQ(narrow_sum(0, apart), 0.0f);
  EXPECT_EQ(narrow_sum(0, apart, 16), 1.0f);
}

TEST(Float8, SpecialValues) {
  for (const MultiplyTile8 multiply : {best_lanes().multiply_8, best_lanes().multiply_8_widened}) {
    const std::uint32_t nan = 0x7fffffff;
    EXPECT_EQ(sum(multiply, 1, {{0x7f, 0}}), nan);
    EXPECT_EQ(sum(multiply, 1, {{kOne, 0xff}}), nan);
    EXPECT_EQ(sum(multiply, NAN, {}), nan);
    EXPECT_EQ(sum(multiply, -INFINITY, {{kOne, kOne}}), 0xff800000u);
    const Kinds8 both{true, true};
    EXPECT_EQ(sum(multiply, 1, {{0x7c, 0x3c}}, both), 0x7f800000u);
    EXPECT_EQ(sum(multiply, 1, {{0x7c, 0xbc}}, both), 0xff800000u);
    EXPECT_EQ(sum(multiply, 1, {{0x7c, 0}}, both), nan);
    EXPECT_EQ(sum(multiply, 1, {{0x7c, 0x3c}, {0x3c, 0xfc}}, both), nan);
    EXPECT_EQ(sum(multiply, -INFINITY, {{0x7c, 0x3c}}, both), nan);
  }
}

// mma.sync of sm_90: 25 bits, two parts, the accumulator rounded in.
TEST(Float8, WidenedSums) {
  const auto widened = [](float c, Codes products) {
    return std::bit_cast<float>(sum(best_lanes().multiply_8_widened, c, products));
  };
  EXPECT_EQ(widened(1, {{power(-6), power(-6)}}), 1 + 0x1p-12f);
  EXPECT_EQ(widened(1, {{1, 1}, {1, 1}}), 1 + 0x1p-17f);
  EXPECT_EQ(widened(0x1p7f, {{1, 3}}), 0x1p7f + 0x1p-16f);  // 3 * 2^-18: to nearest
  EXPECT_EQ(widened(0x1p7f, {{1, 2}}), 0x1p7f);             // a tie
  // Places 0 and 1 of every four are summed first: 2^16 and -2^16 cancel before 2^-11 comes.
  const std::pair<unsigned, unsigned> large{power(8), power(8)}, back{power(8), power(8) | kMinus},
      small{power(-6), power(-5)}, zero{0, 0};
  EXPECT_EQ(widened(0, {large, back, small, zero}), 0x1p-11f);
  EXPECT_EQ(widened(0, {large, back, zero, zero, small}), 0.0f);
  EXPECT_EQ(widened(0, {small, zero, large, back}), 0.0f);
}

#if defined(__x86_64__)
TEST(Float8, BothCompilationsAgree) {
  if (&best_lanes() == &plain_lanes()) GTEST_SKIP() << "this processor runs the plain one";
  Random random(8);
  for (int round = 0; round < 200; ++round) {
    std::uint8_t a[512], b[512];
    float c[256], d[256];
    const auto finite = static_cast<std::uint8_t>(round % 4 == 0 ? 0xff : 0xbf);
    for (auto& x : a) x = static_cast<std::uint8_t>(random.next()) & finite;
    for (auto& x : b) x = static_cast<std::uint8_t>(random.next()) & finite;
    for (unsigned i = 0; i < 256; ++i)
      c[i] = d[i] =
          std::ldexp(static_cast<float>(random.below(4000)) - 2000, static_cast<int>(random.below(60)) - 40);
    const Kinds8 kinds{(round & 1) != 0, (round & 2) != 0};
    TensorCore numbers;
    numbers.chunk_8 = round % 3 == 0 ? 16 : 32;
    const bool widened = round % 5 == 0;
    const auto run = [&](const LaneTable& lanes, float* to) {
      if (widened)
        lanes.multiply_8_widened(a, b, to, 16, kinds, numbers);
      else
        lanes.multiply_8(a, b, to, 16, kinds, numbers.of_8_bits());
    };
    run(plain_lanes(), c);
    run(best_lanes(), d);
    for (unsigned i = 0; i < 256; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(c[i]), std::bit_cast<std::uint32_t>(d[i])) << round << " " << i;
  }
}
#endif

}  // namespace
}  // namespace emulator
