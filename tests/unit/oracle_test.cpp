// The oracle against attention worked out on paper. Unless a test says otherwise there is one batch
// entry and one head, scale = 1, and
//
//   Q = [1 0]    K = [1 0]    V = [1 2]      Q K^T = [1 0]
//       [0 1]        [0 1]        [3 4]              [0 1]
//
// With e = 2.718281828459045 the weights of row 0 are e/(e+1) = 0.7310585786300049 and
// 1/(e+1) = 0.2689414213699951; row 1 has them the other way round.
#include "oracle/oracle.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = 1e-14;

// A problem that owns its memory; [1, heads, rows, 2] throughout.
struct Paper {
  std::vector<float> q{1, 0, 0, 1}, k{1, 0, 0, 1}, v{1, 2, 3, 4}, mask, slopes, sinks;
  std::vector<unsigned char> bools;
  std::vector<std::int32_t> lengths;
  tessera_attention p = TESSERA_ATTENTION_INIT;

  tessera::oracle::Result attend(std::int64_t heads = 1, std::int64_t kv_heads = 1) {
    const auto rows = [](const std::vector<float>& x, std::int64_t h) {
      return static_cast<std::int64_t>(x.size()) / (2 * h);
    };
    p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, heads, rows(q, heads), 2);
    p.key = tessera_tensor_4d(k.data(), TESSERA_F32, 1, kv_heads, rows(k, kv_heads), 2);
    p.value = tessera_tensor_4d(v.data(), TESSERA_F32, 1, kv_heads, rows(v, kv_heads), 2);
    p.output = tessera_tensor_4d(nullptr, TESSERA_F32, 1, heads, rows(q, heads), 2);
    if (!slopes.empty()) p.alibi_slopes = {slopes.data(), TESSERA_F32, 1, {heads, 0, 0, 0}, {1, 0, 0, 0}};
    if (!sinks.empty()) p.sinks = {sinks.data(), TESSERA_F32, 1, {heads, 0, 0, 0}, {1, 0, 0, 0}};
    if (!lengths.empty()) p.key_lengths = {lengths.data(), TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
    return tessera::oracle::attend(p);
  }
  void band(tessera_align align, std::int64_t left, std::int64_t right) {
    p.mask.align = align;
    p.mask.left = left;
    p.mask.right = right;
  }
  void additive(std::vector<float> values, std::int64_t queries, std::int64_t keys) {
    mask = std::move(values);
    p.mask.tensor = {mask.data(), TESSERA_F32, 2, {queries, keys, 0, 0}, {keys, 1, 0, 0}};
  }
  void boolean(std::vector<unsigned char> values, std::int64_t queries, std::int64_t keys) {
    bools = std::move(values);
    p.mask.tensor = {bools.data(), TESSERA_BOOL, 2, {queries, keys, 0, 0}, {keys, 1, 0, 0}};
  }
};

Paper paper() {
  Paper x;
  x.p.scale = 1;
  return x;
}

void expect_values(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t n = 0; n < got.size(); ++n) {
    if (std::isnan(want[n])) {
      EXPECT_TRUE(std::isnan(got[n])) << "element " << n << " is " << got[n];
    } else if (std::isinf(want[n])) {
      EXPECT_EQ(got[n], want[n]) << "element " << n;
    } else {
      EXPECT_NEAR(got[n], want[n], kTolerance) << "element " << n;
    }
  }
}

// Row 0: 0.7310585786300049 [1 2] + 0.2689414213699951 [3 4] = [1 2] + 0.2689414213699951 [2 2]
// Row 1: [1 2] + 0.7310585786300049 [2 2].   Both: lse = ln(e + 1) = 1.3132616875182228
TEST(Oracle, NoOptions) {
  Paper x = paper();
  const auto r = x.attend();
  expect_values(r.output, {1.5378828427399902, 2.5378828427399902, 2.4621171572600098, 3.4621171572600098});
  expect_values(r.lse, {1.3132616875182228, 1.3132616875182228});
}

// TESSERA_SCALE_ZERO stands for 0: every key weighs the same.
TEST(Oracle, ScaleZeroAverages) {
  Paper x = paper();
  x.p.scale = TESSERA_SCALE_ZERO;
  const auto r = x.attend();
  expect_values(r.output, {2, 3, 2, 3});
  expect_values(r.lse, {0.6931471805599453, 0.6931471805599453});  // ln 2
}

// scale 0 stands for 1/sqrt(2) = 0.7071067811865476. exp of it is 2.028114981647472, so the lesser weight
// is 1/3.028114981647472 = 0.3302384506733431 and lse = ln 3.028114981647472 = 1.1079403076572498.
TEST(Oracle, DefaultScale) {
  Paper x = paper();
  x.p.scale = 0;
  const auto r = x.attend();
  expect_values(r.output, {1.6604769013466862, 2.6604769013466862, 2.3395230986533138, 3.3395230986533138});
  expect_values(r.lse, {1.1079403076572498, 1.1079403076572498});
}

// Row 0 stands on key 0 and sees it alone: [1 2], lse = its score 1. Row 1 sees both, as above.
TEST(Oracle, CausalTopLeft) {
  Paper x = paper();
  x.band(TESSERA_ALIGN_TOP_LEFT, TESSERA_UNBOUNDED, 0);
  const auto r = x.attend();
  expect_values(r.output, {1, 2, 2.4621171572600098, 3.4621171572600098});
  expect_values(r.lse, {1, 1.3132616875182228});
}

// A third key [1 1] with value [5 6]. Bottom-right: row 0 stands on key 1, row 1 on key 2.
// Row 0 sees keys 0 and 1, as without a mask. Row 1 has scores 0 1 1:
//   o = ([1 2] + e [3 4] + e [5 6]) / (1 + 2e) = [1 + 8e, 2 + 10e] / (1 + 2e)
//     = [22.74625462767236, 29.18281828459045] / 6.43656365691809 = [3.533912789509109, 4.533912789509109]
//   lse = ln 6.43656365691809 = 1.861994804058251
TEST(Oracle, CausalBottomRightMoreKeys) {
  Paper x = paper();
  x.k = {1, 0, 0, 1, 1, 1};
  x.v = {1, 2, 3, 4, 5, 6};
  x.band(TESSERA_ALIGN_BOTTOM_RIGHT, TESSERA_UNBOUNDED, 0);
  const auto r = x.attend();
  expect_values(r.output, {1.5378828427399902, 2.5378828427399902, 3.533912789509109, 4.533912789509109});
  expect_values(r.lse, {1.3132616875182228, 1.861994804058251});
}

// The same keys, top-left: row 0 sees key 0, row 1 keys 0 and 1; key 2 is never seen.
TEST(Oracle, CausalTopLeftMoreKeys) {
  Paper x = paper();
  x.k = {1, 0, 0, 1, 1, 1};
  x.v = {1, 2, 3, 4, 5, 6};
  x.band(TESSERA_ALIGN_TOP_LEFT, TESSERA_UNBOUNDED, 0);
  const auto r = x.attend();
  expect_values(r.output, {1, 2, 2.4621171572600098, 3.4621171572600098});
  expect_values(r.lse, {1, 1.3132616875182228});
}

// Three queries (the third [0 1] again) on two keys, bottom-right: row 0 stands on key -1 and sees nothing,
// row 1 on key 0 (score 0, value [1 2]), row 2 on key 1 and sees both.
TEST(Oracle, CausalBottomRightMoreQueries) {
  Paper x = paper();
  x.q = {1, 0, 0, 1, 0, 1};
  x.band(TESSERA_ALIGN_BOTTOM_RIGHT, TESSERA_UNBOUNDED, 0);
  const auto r = x.attend();
  expect_values(r.output, {0, 0, 1, 2, 2.4621171572600098, 3.4621171572600098});
  expect_values(r.lse, {-INFINITY, 0, 1.3132616875182228});
}

// Window 0,0 is the diagonal: each row is the value of its own key, lse its score.
TEST(Oracle, WindowOfOne) {
  Paper x = paper();
  x.band(TESSERA_ALIGN_TOP_LEFT, 0, 0);
  const auto r = x.attend();
  expect_values(r.output, {1, 2, 3, 4});
  expect_values(r.lse, {1, 1});
}

// Right side open, left 0: row 0 sees both keys, row 1 only key 1.
TEST(Oracle, WindowOpenToTheRight) {
  Paper x = paper();
  x.band(TESSERA_ALIGN_TOP_LEFT, 0, TESSERA_UNBOUNDED);
  const auto r = x.attend();
  expect_values(r.output, {1.5378828427399902, 2.5378828427399902, 3, 4});
  expect_values(r.lse, {1.3132616875182228, 1});
}

// Mask [0 1; -inf 0]. Row 0: scores 1 and 0 + 1, so both weigh 1/2: [2 3], lse = 1 + ln 2.
// Row 1: key 0 is gone, key 1 alone with score 1: [3 4], lse 1.
TEST(Oracle, AdditiveMask) {
  Paper x = paper();
  x.additive({0, 1, -kInf, 0}, 2, 2);
  const auto r = x.attend();
  expect_values(r.output, {2, 3, 3, 4});
  expect_values(r.lse, {1.6931471805599453, 1});
}

// The same mask over a key row that was never written: key 0 is NaN and hidden from both rows, key 1 has
// scores 0 and 1.
TEST(Oracle, AdditiveMinusInfinityHidesANanScore) {
  for (const float garbage : {kNan, kInf, -kInf}) {
    Paper x = paper();
    x.k[0] = x.k[1] = garbage;
    x.additive({-kInf, 0, -kInf, 0}, 2, 2);
    for (const auto& r : {x.attend(), tessera::oracle::plain(x.p)}) {
      expect_values(r.output, {3, 4, 3, 4});
      expect_values(r.lse, {0, 1});
    }
  }
}

// Row 0 sees key 1 (score 0), row 1 sees nothing.
TEST(Oracle, BooleanMaskAndEmptyRow) {
  Paper x = paper();
  x.boolean({0, 7, 0, 0}, 2, 2);
  const auto r = x.attend();
  expect_values(r.output, {3, 4, 0, 0});
  expect_values(r.lse, {0, -INFINITY});
}

// The band and the tensor both have to let a key through: row 0 loses key 1 to the band and key 0 to the
// tensor; row 1 loses key 0 to the tensor.
TEST(Oracle, BandAndTensor) {
  Paper x = paper();
  x.boolean({0, 1, 0, 1}, 2, 2);
  x.band(TESSERA_ALIGN_TOP_LEFT, TESSERA_UNBOUNDED, 0);
  const auto r = x.attend();
  expect_values(r.output, {0, 0, 3, 4});
  expect_values(r.lse, {-INFINITY, 1});
}

// softcap 1: the score 1 becomes tanh 1 = 0.7615941559557649, 0 stays 0. The lesser weight is
// 1/(1 + exp 0.7615941559557649) = 0.3183002578054738; lse = ln(1 + exp 0.7615941559557649)
// = 1.14476013474948.
TEST(Oracle, Softcap) {
  Paper x = paper();
  x.p.softcap = 1;
  const auto r = x.attend();
  expect_values(r.output, {1.6366005156109476, 2.6366005156109476, 2.3633994843890524, 3.3633994843890524});
  expect_values(r.lse, {1.14476013474948, 1.14476013474948});
}

// Slope 1/2, distance 1 off the diagonal: scores 1 and -1/2. The lesser weight is
// 1/(1 + exp 1.5) = 0.18242552380635635; lse = 1 + ln(1 + exp -1.5) = 1.2014132779827524.
TEST(Oracle, Alibi) {
  Paper x = paper();
  x.slopes = {0.5f};
  x.band(TESSERA_ALIGN_TOP_LEFT, TESSERA_UNBOUNDED, TESSERA_UNBOUNDED);
  const auto r = x.attend();
  expect_values(r.output, {1.3648510476127127, 2.3648510476127127, 2.6351489523872873, 3.6351489523872873});
  expect_values(r.lse, {1.2014132779827524, 1.2014132779827524});
}

// One query [1 0] on two keys, bottom-right: it stands on key 1, so key 0 pays 1/2: scores 1/2 and 0.
// The lesser weight is 1/(1 + exp 0.5) = 0.3775406687981454; lse = ln(1 + exp 0.5) = 0.9740769841801067.
TEST(Oracle, AlibiBottomRight) {
  Paper x = paper();
  x.q = {1, 0};
  x.slopes = {0.5f};
  x.band(TESSERA_ALIGN_BOTTOM_RIGHT, TESSERA_UNBOUNDED, TESSERA_UNBOUNDED);
  const auto r = x.attend();
  expect_values(r.output, {1.7550813375962908, 2.7550813375962908});
  expect_values(r.lse, {0.9740769841801067});
}

// A sink of 0 adds exp 0 = 1 to every sum. Row 0: (e [1 2] + [3 4]) / (e + 2) = [1 + 1/(e + 2), 2]
// = [1.2119415576170856, 2]; row 1: ([1 2] + e [3 4]) / (e + 2) = [(1 + 3e)/(e + 2), (2 + 4e)/(e + 2)]
// = [9.154845485377136, 12.873127313836180] / 4.718281828459045 = [1.940292211914573, 2.728350654297488].
// lse = ln(e + 2) = 1.5514447139320509.
TEST(Oracle, Sink) {
  Paper x = paper();
  x.sinks = {0};
  const auto r = x.attend();
  expect_values(r.output, {1.2119415576170856, 2, 9.154845485377136 / 4.718281828459045,
                           12.873127313836180 / 4.718281828459045});
  expect_values(r.lse, {1.5514447139320509, 1.5514447139320509});
}

// Nothing visible and a sink of 0.25: the sink takes all the weight.
TEST(Oracle, SinkAlone) {
  Paper x = paper();
  x.sinks = {0.25f};
  x.boolean({0, 0, 0, 0}, 2, 2);
  const auto r = x.attend();
  expect_values(r.output, {0, 0, 0, 0});
  expect_values(r.lse, {0.25, 0.25});
}

// A sink of -inf is no sink.
TEST(Oracle, SinkOfMinusInfinity) {
  Paper x = paper();
  x.sinks = {-kInf};
  const auto r = x.attend();
  expect_values(r.output, {1.5378828427399902, 2.5378828427399902, 2.4621171572600098, 3.4621171572600098});
  x.boolean({0, 0, 0, 0}, 2, 2);
  expect_values(x.attend().lse, {-INFINITY, -INFINITY});
}

// Four query heads over two key heads of one key each: heads 0 and 1 give value [1 2], 2 and 3 give [3 4].
TEST(Oracle, GroupedHeads) {
  Paper x = paper();
  x.q = {1, 0, 0, 1, 1, 0, 0, 1};
  const auto r = x.attend(4, 2);
  expect_values(r.output, {1, 2, 1, 2, 3, 4, 3, 4});
  expect_values(r.lse, {1, 0, 0, 1});  // [1 0].[1 0], [0 1].[1 0], [1 0].[0 1], [0 1].[0 1]
}

// Length 1: key 1 does not exist. Bottom-right then puts the last query on key 0: row 0 sees nothing.
TEST(Oracle, KeyLengths) {
  Paper x = paper();
  x.lengths = {1};
  auto r = x.attend();
  expect_values(r.output, {1, 2, 1, 2});
  expect_values(r.lse, {1, 0});
  x.band(TESSERA_ALIGN_BOTTOM_RIGHT, TESSERA_UNBOUNDED, 0);
  r = x.attend();
  expect_values(r.output, {0, 0, 1, 2});
  expect_values(r.lse, {-INFINITY, 0});
}

// Hidden means gone: NaN and inf in a hidden key and its value change nothing.
TEST(Oracle, HiddenKeysMayHoldAnything) {
  Paper x = paper();
  x.k = {1, 0, kNan, kInf};
  x.v = {1, 2, kNan, kInf};
  x.lengths = {1};
  const auto r = x.attend();
  expect_values(r.output, {1, 2, 1, 2});
  expect_values(r.lse, {1, 0});
}

// Key 1 = [-inf 0]: its score is -inf for query [1 0] (no effect, though its value is NaN), and
// 0 * -inf = NaN for query [0 1], whose whole row is NaN.
TEST(Oracle, ScoreOfMinusInfinityAndNan) {
  Paper x = paper();
  x.k = {1, 0, -kInf, 0};
  x.v = {1, 2, kNan, 4};
  const auto r = x.attend();
  expect_values(r.output, {1, 2, kNan, kNan});
  expect_values(r.lse, {1, kNan});
}

TEST(Oracle, ScoreOfPlusInfinity) {
  Paper x = paper();
  x.q = {1, 1, 0, 1};
  x.k = {kInf, 0, 0, 1};
  const auto r = x.attend();
  expect_values({r.output[0], r.output[1]}, {kNan, kNan});
  EXPECT_TRUE(std::isnan(r.lse[0]));
}

// A visible value of inf gives inf in its column and leaves the other column alone.
TEST(Oracle, InfiniteValue) {
  Paper x = paper();
  x.v = {1, 2, kInf, 4};
  const auto r = x.attend();
  expect_values(r.output, {INFINITY, 2.5378828427399902, INFINITY, 3.4621171572600098});
}

TEST(Oracle, NoKeys) {
  Paper x = paper();
  x.k.clear();
  x.v.clear();
  const auto r = x.attend();
  expect_values(r.output, {0, 0, 0, 0});
  expect_values(r.lse, {-INFINITY, -INFINITY});
}

// One mask, written with every rank that says the same: hide key 0 from every query.
TEST(Oracle, MasksBroadcastFromTheRight) {
  std::vector<unsigned char> bytes = {0, 1};
  const tessera_tensor masks[] = {
      {bytes.data(), TESSERA_BOOL, 1, {2, 0, 0, 0}, {1, 0, 0, 0}},
      {bytes.data(), TESSERA_BOOL, 2, {1, 2, 0, 0}, {9, 1, 0, 0}},
      {bytes.data(), TESSERA_BOOL, 2, {2, 2, 0, 0}, {0, 1, 0, 0}},
      {bytes.data(), TESSERA_BOOL, 3, {1, 1, 2, 0}, {9, 9, 1, 0}},
      {bytes.data(), TESSERA_BOOL, 4, {1, 1, 1, 2}, {9, 9, 9, 1}},
  };
  for (const tessera_tensor& mask : masks) {
    Paper x = paper();
    x.p.mask.tensor = mask;
    expect_values(x.attend().output, {3, 4, 3, 4});
  }
}

// The yardstick on the same paper: right to float32.
TEST(Plain, AgreesToFloatPrecision) {
  Paper x = paper();
  x.sinks = {0};
  x.slopes = {0.5f};
  x.p.softcap = 2;
  x.band(TESSERA_ALIGN_TOP_LEFT, TESSERA_UNBOUNDED, TESSERA_UNBOUNDED);
  x.additive({0.25f, 1, -kInf, 0}, 2, 2);
  const auto truth = x.attend();
  const auto plain = tessera::oracle::plain(x.p);
  for (std::size_t n = 0; n < truth.output.size(); ++n) EXPECT_NEAR(plain.output[n], truth.output[n], 1e-6);
  for (std::size_t n = 0; n < truth.lse.size(); ++n) EXPECT_NEAR(plain.lse[n], truth.lse[n], 1e-6);
}

}  // namespace
