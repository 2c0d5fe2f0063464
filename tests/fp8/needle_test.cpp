// One key that matters among 131,072, in inputs of 8 bits: who finds it. A row's needle has a fifth of its
// weight, the first key, a sink, another fifth; channels of K and V stand out.
//
// A row's needle is found if its output, projected on the line from the true output without the needle (0) to
// the true output (1), is nearer to 1. Truths are float64, over the numbers before quantising.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cases/gates.hpp"
#include "core/plan.hpp"
#include "tests/fp8/haystack.hpp"
#include "tests/fp8/running.hpp"

namespace tessera::fp8 {
namespace {

constexpr std::int64_t kKeys = 131072;
constexpr Coding kPerTensor{};  // one head: a scale for each head is one for the tensor
constexpr Coding kRecommended{cases::ScaleKind::head, cases::ScaleKind::channel, true, false};

// How many rows found their needles.
int found(const Needles& needles, const std::vector<double>& output, std::string_view who) {
  const std::vector<double> of_rows = needles.found(output);
  fmt::print("{:32}{:8.3f}\n", who, fmt::join(of_rows, ""));
  return static_cast<int>(
      std::count_if(of_rows.begin(), of_rows.end(), [](double x) { return std::fabs(x - 1) < 0.5; }));
}

class Needle : public testing::TestWithParam<std::int64_t> {
 protected:
  Haystack haystack = make_haystack(Input::needle, kKeys, GetParam(), 1);
  Needles needles{haystack};
};

TEST_P(Needle, IsFoundByTheCpuAndByBothArithmetics) {
  Attention a = as_codes(haystack, kRecommended);
  for (const core::Kernel& kernel : core::kernels()) {
    tessera_device device = TESSERA_DEVICE_INIT;
    if (kernel.device != TESSERA_CPU || !core::missing(kernel, device).empty()) continue;
    device.kernel = kernel.name.data();  // names are literals
    ASSERT_EQ(cases::attend_with_library(a.problem, device), "") << kernel.name;
    EXPECT_EQ(found(needles, a.output(), kernel.name), kRows) << kernel.name;
  }
  const auto plain = [&](oracle::Arithmetic arithmetic) {
    return oracle::plain(a.problem, a.rows, arithmetic).output;
  };
  EXPECT_EQ(found(needles, plain(oracle::Arithmetic::fp8_accurate), "accurate"), kRows);
  EXPECT_EQ(found(needles, plain(oracle::Arithmetic::fp8_fast), "fast"), kRows);
}

// The same codes, scores and weights in both: what is lost is lost in the accumulator.
TEST_P(Needle, IsLostWithoutPromotionAndOnlyThen) {
  const Attention a = as_codes(haystack, kPerTensor);
  const Running both = running(a.problem, a.rows);
  EXPECT_EQ(found(needles, both.promoted, "P in e4m3, promoted"), kRows);
  EXPECT_EQ(found(needles, both.unpromoted, "P in e4m3, not promoted"), 0);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, Needle, testing::Values(64, 128), testing::PrintToStringParamName());

Haystack all_alike(std::int64_t keys) {
  Haystack h = make_haystack(Input::normal, keys, 32, 1);
  std::fill(h.key.begin(), h.key.end(), 0.0f);
  std::fill(h.value.begin(), h.value.end(), 1.0f);
  return h;
}

// All weights are equal and all values 1: so is the output. P is 2^8 and V's code 448 = 1.75 * 2^8, so an
// accumulator in [2^e, 2^(e+1)) takes of a product, 1.75 * 2^16, what is a multiple of 2^(e - 13): at e = 29
// one, 2^16, from e = 30 on nothing. It stops within one instruction of 2^30, which is 1 / 14 of the sum.
TEST(Running, ByHandAnAccumulatorTakesNoMore) {
  const Attention a = as_codes(all_alike(kKeys), kPerTensor);
  const Running both = running(a.problem, a.rows);
  for (const double x : both.promoted) EXPECT_NEAR(x, 1, 1e-6);
  for (const double x : both.unpromoted) EXPECT_NEAR(x, 1.0 / 14, 1.0 / 14 * 32 * 0x1p-14);
}

TEST(Running, OneTileHasTheSameBitsEitherWay) {
  const Attention a = as_codes(make_haystack(Input::outliers, 128, 64, 2), kPerTensor);
  const Running both = running(a.problem, a.rows);
  EXPECT_EQ(both.promoted, both.unpromoted);
}

// With promotion it is the yardstick's fast arithmetic but for what P is relative to, and so for which way
// single weights are rounded.
TEST(Running, PromotedIsAsNearToTheTruthAsFast) {
  const Attention a = as_codes(make_haystack(Input::normal, 700, 64, 3), kPerTensor);
  const std::vector<double> truth = oracle::attend(a.problem, a.rows).output;
  const auto distance = [&](const std::vector<double>& output) {
    double most = 0;
    for (std::size_t n = 0; n < truth.size(); ++n) most = std::max(most, std::fabs(output[n] - truth[n]));
    return most;
  };
  const double fast = distance(oracle::plain(a.problem, a.rows, oracle::Arithmetic::fp8_fast).output);
  EXPECT_LT(distance(running(a.problem, a.rows).promoted), 2 * fast);
}

}  // namespace
}  // namespace tessera::fp8
