// The unit that kernels keep scores in: whatever it is, exponents of 2 come out as the formula says, and what
// stands for softcap where scores are small is softcap.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/translate.hpp"
#include "tests/cuda/planned.hpp"

namespace tessera::cuda {
namespace {

constexpr double kLog2E = 1.4426950408889634;

ScoreUnits units(float scale, float softcap) {
  core::Problem p = testing_cuda::problem("b1 h1 q64 k64 d64 f16");
  p.scoring.scale = scale;
  p.scoring.softcap = softcap;
  return translate(p, 1).units;
}

TEST(ScoreUnits, ExponentsAreTheFormulas) {
  for (const float scale : {0.125f, 1.0f, 1e-30f, 1e30f, -0.5f, 0.0f})
    for (const float softcap : {0.0f, 30.0f, 1e-30f, 1e-3f, 1e30f}) {
      const ScoreUnits u = units(scale, softcap);
      const double exact = double{scale} * kLog2E;
      EXPECT_TRUE(std::isfinite(u.first));  // 0 times inf would be NaN
      if (softcap == 0 || std::isfinite(scale / softcap)) {
        EXPECT_NEAR(double{u.first} * u.factor, exact, 3e-7 * std::abs(exact)) << scale << " " << softcap;
      }
      EXPECT_NEAR(double{u.bias} * u.factor, kLog2E, 3e-7 * kLog2E) << scale << " " << softcap;
      EXPECT_GT(u.factor, 0.0f) << "the largest score must be the largest exponent";
      EXPECT_TRUE(std::isfinite(u.least_bias * u.bias) && std::isfinite(u.least_bias * u.bias * u.factor));
      if (softcap == 0) continue;
      EXPECT_NEAR(double{u.cap_in} * u.cap_out, 1.0, 3e-7);
      EXPECT_NEAR(double{u.cap_out} * u.factor, softcap * kLog2E, 3e-7 * softcap * kLog2E) << scale;
    }
}

// s + s^3 (c[0] + c[1] s^2 + ...).
template <int kTerms>
double polynomial(double s, const float (&c)[kTerms]) {
  double p = 0;
  for (int i = kTerms - 1; i >= 0; --i) p = p * s * s + double{c[i]};
  return s + s * s * s * p;
}

TEST(ScoreUnits, PolynomialsAreTheCapWhereTheyHold) {
  for (const float scale : {0.125f, -0.5f, 1e30f})
    for (const float softcap : {50.0f, 1.0f, 1e-3f}) {
      const ScoreUnits u = units(scale, softcap);
      const auto cap = [&](double s) { return double{u.cap_out} * std::tanh(double{u.cap_in} * s); };
      for (int i = -100; i <= 100; ++i) {
        const double small = u.cap_small * i / 100.0, middle = u.cap_middle * i / 100.0;
        EXPECT_NEAR(polynomial(small, u.cap_3), cap(small), 1e-7 * std::abs(small))
            << scale << " " << softcap;
        EXPECT_NEAR(polynomial(middle, u.cap_5), cap(middle), 1e-7 * std::abs(middle));
      }
    }
}

}  // namespace
}  // namespace tessera::cuda
