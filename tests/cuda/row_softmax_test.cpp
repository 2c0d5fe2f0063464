// The softmax that the kernels share, on the host: rows to all of whose scores a mask adds something
// enormous, and rows whose neighbours grow. One thread stands for the four that share its rows, so that what
// they give each other is its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/translate.hpp"
#include "tests/cuda/planned.hpp"

// Device code, compiled for the host.
#include <cuda_fp16.h>
#include <vector_functions.h>
using std::max;
using std::min;
inline float __shfl_xor_sync(unsigned, float x, int) { return x; }
inline unsigned __ballot_sync(unsigned, bool x) { return x ? ~0u : 0u; }
inline bool __any_sync(unsigned, bool x) { return x; }
inline bool __all_sync(unsigned, bool x) { return x; }
template <class T>
T __hfma2(T, T, T);  // nobody calls it
#include "cuda/tile/options.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda {
namespace {

constexpr int kGroups = 4;  // of 8 keys, two of which are the thread's
constexpr float kLowestBf16 = -3.3895314e38f;
using Tile = float[kGroups][4];

Params params(float scale, float softcap = 0) {
  core::Problem p = testing_cuda::problem("b1 h1 q64 k64 d64 f16");
  p.scoring.scale = scale;
  p.scoring.softcap = softcap;
  Params params = translate(p, 1);
  params.visibility.mask_kind = MaskTensorKind::additive_f32;
  return params;
}

// Row 0 has `add` added to all its scores, row 1 nothing. The dot products are small numbers that differ.
void fill(Tile& s, const Params& p, float add, int tile) {
  for (int n = 0; n < kGroups; ++n) {
    for (int i = 0; i < 4; ++i) s[n][i] = static_cast<float>((7 * n + 3 * i + 5 * tile) % 4) - 1.5f;
    tile::add_bias<false>(s[n], 0, make_float2(add, add), p.units);
    tile::add_bias<false>(s[n], 1, make_float2(0.0f, 0.0f), p.units);
  }
}

struct Row {
  std::vector<float> probs;  // as the product takes them, against the last row max
  tile::SoftmaxState state;

  float weight() const {
    float all = 0;
    for (const float x : probs) all += x;
    return all;
  }
};

void note(Row (&rows)[2], const unsigned (&probs)[kGroups / 2][4]) {
  for (int n = 0; n < kGroups; ++n)
    for (int r = 0; r < 2; ++r) {
      const float2 x = tile::unpack<__half>(probs[n / 2][n % 2 * 2 + r]);
      rows[r].probs.insert(rows[r].probs.end(), {x.x, x.y});
    }
}

// What kernels with a lazy row max do with tiles, to whose first rows adds[i] is added. (It is the harder
// way: an eager one never meets P over 256.)
template <class Factor>
void soften(const Params& p, Factor factor, const std::vector<float>& adds, Row (&result)[2]) {
  tile::RowState rows = tile::empty_rows();
  for (std::size_t i = 0; i < adds.size(); ++i) {
    Tile s;
    fill(s, p, adds[i], static_cast<int>(i));
    unsigned probs[kGroups / 2][4];
    float sum[2], shrink[2] = {1, 1};
    if (i == 0) tile::start_row_max<1>(s, rows, factor);
    tile::exponentiate<__half>(probs, s, rows, factor, sum);
    if (tile::any_grown(sum)) {
      tile::start_over<1>(s, rows, factor, sum, 0, shrink);
      tile::exponentiate<__half>(probs, s, rows, factor, sum);
    }
    tile::add_sums(rows, sum);
    for (int r = 0; r < 2; ++r)
      for (float& x : result[r].probs) x *= shrink[r];
    note(result, probs);
  }
  tile::end_row_max(rows, {p.units.factor});
  for (int r = 0; r < 2; ++r) result[r].state = rows.of(r);
}

float lse_of(const Params& p, const Row& row, float add) {
  const float lse = tile::log_sum_exp(row.state);
  return tile::is_low(p, lse) ? add : lse;  // largest_additive
}

class FarOut : public testing::TestWithParam<float> {};

// Beside so large a number nothing is left of a dot product: all weights are the same.
TEST_P(FarOut, ARowWithTheSameEverywhereGivesTheMean) {
  const float add = GetParam();
  for (const int dim : {16, 40, 64, 80, 96, 128, 192, 256})
    for (const float scale : {1 / std::sqrt(static_cast<float>(dim)), static_cast<float>(dim)})
      for (const float softcap : {0.0f, 30.0f}) {
        const Params p = params(scale, softcap);
        SCOPED_TRACE(testing::Message() << add << " scale " << scale << " softcap " << softcap);
        Row rows[2];
        soften(p, tile::OptionScores::Factor{tile::OptionScores::factor(p)}, {add, add, add}, rows);
        ASSERT_GT(rows[0].weight(), 0.0f);
        for (const float x : rows[0].probs) {
          // The sum that O is divided by is of the P that O is made of.
          ASSERT_NEAR(x / rows[0].state.sum, 1.0 / static_cast<double>(rows[0].probs.size()), 1e-3);
        }
        const double exact = add, least = 4e-7 * std::abs(exact);
        EXPECT_NEAR(lse_of(p, rows[0], add), exact, least);
        EXPECT_TRUE(std::isfinite(tile::log_sum_exp(rows[1].state)));
      }
}

// A key that the mask adds nothing to takes all the weight, whether its tile comes first or last.
TEST_P(FarOut, NothingIsLeftOfItBesideAnOrdinaryScore) {
  const Params p = params(0.125f);
  const auto soften_row = [&](const std::vector<float>& adds) {
    Row rows[2];
    soften(p, tile::OptionScores::Factor{tile::OptionScores::factor(p)}, adds, rows);
    return rows[0];
  };
  const float lse = tile::log_sum_exp(soften_row({0.0f}).state);
  for (const std::vector<float>& adds :
       {std::vector{GetParam(), 0.0f}, {GetParam(), GetParam(), 0.0f}, {GetParam(), -1e30f, 0.0f}}) {
    const Row last = soften_row(adds);
    const std::size_t far_out = last.probs.size() - 2 * kGroups;
    for (std::size_t i = 0; i < far_out; ++i) EXPECT_EQ(last.probs[i], 0.0f);
    for (std::size_t i = far_out; i < last.probs.size(); ++i) EXPECT_GT(last.probs[i], 0.1f);
    EXPECT_NEAR(tile::log_sum_exp(last.state), lse, 0.1f);
    std::vector<float> turned = adds;
    std::ranges::reverse(turned);
    EXPECT_EQ(tile::log_sum_exp(soften_row(turned).state), lse);
  }
}

INSTANTIATE_TEST_SUITE_P(Adds, FarOut,
                         testing::Values(std::numeric_limits<float>::lowest(), kLowestBf16, -1e37f, -1e36f,
                                         -1e30f, -1e20f, -1e12f, -1e11f));

// Nearer ones, beside which the dot products still count: no further off than a score's own rounding.
TEST(FarOut, NearerRowsKeepTheirWeights) {
  for (const float add : {0.0f, -1e4f, -65504.0f, -1e6f, -5e7f, -1e8f, -1e9f})
    for (const int dim : {16, 40, 64, 96, 128}) {
      const Params p = params(1 / std::sqrt(static_cast<float>(dim)));
      Row rows[2];
      soften(p, tile::OptionScores::Factor{tile::OptionScores::factor(p)}, {add}, rows);
      Tile s;
      fill(s, p, add, 0);
      double sum = 0, largest = -INFINITY;
      for (const auto& group : s)
        for (int e = 0; e < 2; ++e) largest = std::max(largest, double{group[e]});
      for (const auto& group : s)
        for (int e = 0; e < 2; ++e) sum += std::exp2((group[e] - largest) * double{p.units.factor});
      for (int i = 0; i < 2 * kGroups; ++i) {
        const double exact = std::exp2((s[i / 2][i % 2] - largest) * double{p.units.factor}) / sum;
        EXPECT_NEAR(rows[0].probs[static_cast<std::size_t>(i)] / rows[0].state.sum, exact, 1e-3) << add;
      }
    }
}

// With ALiBi in the exponents: row 0 grows by so much, or not at all.
struct Grown {
  unsigned probs[kGroups / 2][4];
  tile::RowState rows;
  float shrink[2] = {1, 1};
};
template <bool kBefore>
Grown grow(float by) {
  const tile::AlibiScores policy{0.7f};
  const int position = kBefore ? 40 : 0, key = kBefore ? 0 : 10;
  const auto shift_of = [&](const tile::RowState& rows) {
    return policy.shift<kBefore, 8 * kGroups>(rows, position, key);
  };
  Tile s;
  for (int n = 0; n < kGroups; ++n)
    for (int i = 0; i < 4; ++i)
      s[n][i] = static_cast<float>((7 * n + 3 * i) % 4) * 0.3f + (i < 2 ? by : 0.0f);
  Grown g;
  g.rows = {{-2.0f, -1.5f}, {3.0f, 5.0f}};
  float sum[2];
  tile::exponentiate_shifted<__half>(g.probs, s, shift_of(g.rows), 1.1f, sum);
  EXPECT_EQ(tile::any_grown(sum), by > 0);
  tile::start_over_shifted(s, g.rows, shift_of(tile::RowState{}), 1.1f, sum, 0, g.shrink);
  tile::exponentiate_shifted<__half>(g.probs, s, shift_of(g.rows), 1.1f, sum);
  tile::add_sums(g.rows, sum);
  return g;
}

template <bool kBefore>
void expect_neighbours_keep_their_bits() {
  const Grown with = grow<kBefore>(60.0f), without = grow<kBefore>(0.0f);
  EXPECT_LT(with.shrink[0], 1e-6f);
  EXPECT_EQ(with.shrink[1], 1.0f);
  EXPECT_EQ(with.rows.row_max[1], without.rows.row_max[1]);
  EXPECT_EQ(with.rows.sum[1], without.rows.sum[1]);
  float largest = 0;
  for (int n = 0; n < kGroups; ++n) {
    EXPECT_EQ(with.probs[n / 2][n % 2 * 2 + 1], without.probs[n / 2][n % 2 * 2 + 1]);
    const float2 x = tile::unpack<__half>(with.probs[n / 2][n % 2 * 2]);
    largest = std::max({largest, x.x, x.y});
  }
  EXPECT_NEAR(largest, 1.0f, 1e-3f);  // of the row that starts over
}

TEST(Grown, ARowThatHasNotGrownKeepsItsBitsBesideOneThatHas) {
  expect_neighbours_keep_their_bits<true>();
  expect_neighbours_keep_their_bits<false>();
}

}  // namespace
}  // namespace tessera::cuda
