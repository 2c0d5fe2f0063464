// How the tensor cores round: hand-made sums, and both compilations against each other.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "emulator/exec/lanes/table.hpp"
#include "emulator/exec/random.hpp"

namespace emulator {
namespace {

constexpr std::uint16_t kOne = 0x3c00;  // f16
std::uint16_t power(int e) { return static_cast<std::uint16_t>((e + 15) << 10); }

// One element: c + the first products of a[k] * b[k].
std::uint32_t sum(float c, std::initializer_list<std::pair<std::uint16_t, std::uint16_t>> products,
                  TensorCore numbers) {
  std::uint16_t a[256] = {}, b[128] = {};
  float d[128] = {c};
  int k = 0;
  for (const auto& [x, y] : products) a[k] = x, b[k++] = y;
  best_lanes().multiply(a, b, d, 8, false, numbers);
  return std::bit_cast<std::uint32_t>(d[0]);
}

TEST(TensorCore, TermsAreCutAtTheFractionOfTheLargest) {
  const std::uint16_t minus = 0x8000;
  const auto tiny = power(-12);
  const std::uint16_t tinier = static_cast<std::uint16_t>(power(-13) | minus);  // tiny * tinier = -2^-25
  EXPECT_EQ(sum(1.0f, {{tiny, tinier}}, {8, 24}), std::bit_cast<std::uint32_t>(1.0f));
  EXPECT_EQ(sum(1.0f, {{tiny, tinier}}, {16, 25}), 0x3f7fffffu);
  // 2^-25 twice: each is cut off with 24 bits, together they count with 25, and the sum is cut to a float.
  EXPECT_EQ(sum(1.0f, {{tiny, power(-13)}, {tiny, power(-13)}}, {8, 24}), 0x3f800000u);
  EXPECT_EQ(sum(1.0f, {{tiny, power(-13)}, {tiny, power(-13)}, {tiny, power(-12)}}, {16, 25}), 0x3f800001u);
}

TEST(TensorCore, SumsAreCutNotRounded) {
  EXPECT_EQ(sum(1.0f, {{power(-12), power(-12)}}, {16, 25}), 0x3f800000u);
  EXPECT_EQ(sum(-1.0f, {{power(-12), static_cast<std::uint16_t>(power(-12) | 0x8000)}}, {16, 25}),
            0xbf800000u);
}

TEST(TensorCore, SpecialValues) {
  EXPECT_EQ(sum(1.0f, {{0x7c00, kOne}}, {16, 25}), 0x7f800000u);
  EXPECT_EQ(sum(1.0f, {{0x7c00, 0}}, {16, 25}), 0x7fffffffu);
  EXPECT_EQ(sum(0x1p-140f, {}, {16, 25}), std::bit_cast<std::uint32_t>(0x1p-140f));
}

#if defined(__x86_64__)
TEST(TensorCore, BothCompilationsAgree) {
  if (&best_lanes() == &plain_lanes()) GTEST_SKIP() << "this processor runs the plain one";
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    const bool bfloat = (round & 1) != 0;
    std::uint16_t a[256], b[256];
    float c[256], d[256];
    for (auto& x : a) x = static_cast<std::uint16_t>(random.next());
    for (auto& x : b) x = static_cast<std::uint16_t>(round % 3 == 0 ? random.next() & 0xbfff : random.next());
    for (unsigned i = 0; i < 256; ++i)
      c[i] = d[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
    const TensorCore numbers = round % 5 == 0 ? TensorCore{8, 24} : TensorCore{16, 25};
    plain_lanes().multiply(a, b, c, 16, bfloat, numbers);
    best_lanes().multiply(a, b, d, 16, bfloat, numbers);
    for (unsigned i = 0; i < 256; ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(c[i]), std::bit_cast<std::uint32_t>(d[i])) << round << " " << i;
  }
}
#endif

}  // namespace
}  // namespace emulator
