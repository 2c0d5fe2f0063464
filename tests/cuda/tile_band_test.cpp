// Which keys a block of rows visits, against the definition, over every small band; and the softmax state
// against float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "cuda/params.hpp"
#include "cuda/tile/band.hpp"
#include "cuda/tile/divide.hpp"
#include "cuda/tile/softmax.hpp"

namespace tessera::cuda::tile {
namespace {

struct Seen {
  int by_some_begin, by_some_end;
  int by_all_begin, by_all_end;
};

// Straight from the definition: a key is seen by some rows, or by all of them.
Seen look(const Band& band, int first, int last) {
  Seen seen{band.keys, 0, band.keys, 0};
  for (int key = 0; key < band.keys; ++key) {
    int rows = 0;
    for (int row = first; row <= last; ++row) rows += band.visible(row, key) ? 1 : 0;
    if (rows > 0) seen.by_some_begin = std::min(seen.by_some_begin, key), seen.by_some_end = key + 1;
    if (rows == last - first + 1)
      seen.by_all_begin = std::min(seen.by_all_begin, key), seen.by_all_end = key + 1;
  }
  return seen;
}

void expect_exact(const Band& band, int first, int last) {
  const KeyRange range = key_range(band, first, last);
  const Seen seen = look(band, first, last);
  SCOPED_TRACE(fmt::format("keys {} offset {} left {} right {} rows {}..{}", band.keys, band.offset,
                           band.left, band.right, first, last));
  EXPECT_GE(range.begin, 0);
  EXPECT_LE(range.begin, range.end);
  EXPECT_LE(range.end, band.keys);
  if (seen.by_some_begin < seen.by_some_end) {
    EXPECT_EQ(range.begin, seen.by_some_begin);
    EXPECT_EQ(range.end, seen.by_some_end);
  } else {
    EXPECT_EQ(range.begin, range.end) << "nothing is seen, nothing is visited";
  }
  if (seen.by_all_begin < seen.by_all_end) {
    EXPECT_EQ(range.full_begin, seen.by_all_begin);
    EXPECT_EQ(range.full_end, seen.by_all_end);
  } else {
    EXPECT_LE(range.full_end, range.full_begin) << "no key may go unmasked";
  }
}

TEST(Band, KeyRangeIsExactOnEverySmallBand) {
  for (const int keys : {0, 1, 2, 5, 9})
    for (int offset = -12; offset <= 12; ++offset)
      for (const int left : {0, 1, 3, 20, kFarAway})
        for (const int right : {0, 1, 4, 20, kFarAway})
          for (int first = 0; first < 6; ++first)
            for (int last = first; last < 6; ++last) expect_exact({keys, offset, left, right}, first, last);
}

TEST(Band, VisibleIsTheDefinition) {
  const Band causal{8, 2, kFarAway, 0};  // bottom-right: 6 queries, 8 keys
  EXPECT_TRUE(causal.visible(0, 0));
  EXPECT_TRUE(causal.visible(0, 2));
  EXPECT_FALSE(causal.visible(0, 3));
  EXPECT_TRUE(causal.visible(5, 7));
  const Band more_queries{3, -2, kFarAway, 0};
  EXPECT_FALSE(more_queries.visible(1, 0)) << "before the first key there is nothing to see";
  EXPECT_TRUE(more_queries.visible(2, 0));
  const Band window{100, 0, 2, 1};
  EXPECT_FALSE(window.visible(10, 7));
  EXPECT_TRUE(window.visible(10, 8));
  EXPECT_TRUE(window.visible(10, 11));
  EXPECT_FALSE(window.visible(10, 12));
  EXPECT_FALSE(window.visible(99, 100)) << "past the keys";
}

// The same in 64 bits.
KeyRange wide_key_range(const Band& band, long long first, long long last) {
  const auto seen = [&](long long key, int low, int high) {
    return static_cast<int>(std::clamp(key, static_cast<long long>(low), static_cast<long long>(high)));
  };
  KeyRange range{};
  range.begin = seen(first + band.offset - band.left, 0, band.keys);
  range.end = seen(last + band.offset + band.right + 1, range.begin, band.keys);
  range.full_begin = seen(last + band.offset - band.left, range.begin, range.end);
  range.full_end = seen(first + band.offset + band.right + 1, range.begin, range.end);
  return range;
}

TEST(Band, TheLongestLengthsDoNotOverflow) {
  const int longest = kMaxLength;
  for (const int keys : {0, 1, longest / 2, longest - 1, longest})
    for (const int queries : {1, 2, longest / 2, longest - 1, longest})
      for (const int offset : {0, keys - queries})  // top-left, bottom-right
        for (const int left : {0, 1, longest / 2, longest, kFarAway})
          for (const int right : {0, 1, longest / 2, longest, kFarAway})
            for (const int first : {0, queries / 2, queries - 1}) {
              const Band band{keys, offset, left, right};
              const KeyRange range = key_range(band, first, queries - 1);
              const KeyRange wide = wide_key_range(band, first, queries - 1);
              SCOPED_TRACE(fmt::format("keys {} queries {} offset {} left {} right {} from {}", keys, queries,
                                       offset, left, right, first));
              EXPECT_EQ(range.begin, wide.begin);
              EXPECT_EQ(range.end, wide.end);
              EXPECT_EQ(range.full_begin, wide.full_begin);
              EXPECT_EQ(range.full_end, wide.full_end);
            }
  EXPECT_TRUE((Band{longest, 0, kFarAway, kFarAway}.visible(longest - 1, longest - 1)));
}

// The state, fed tile by tile as a kernel does; `acc` stands for one output element.
struct Running {
  SoftmaxState state = empty_softmax();
  float acc = 0;

  void add(const std::vector<float>& scores, const std::vector<float>& values) {
    float largest = minus_infinity();
    for (const float s : scores) largest = std::max(largest, s * kLog2E);
    acc *= raise_row_max(state, largest);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const float weight = ptx::exp2_approx(scores[i] * kLog2E - state.row_max);
      state.sum += weight;
      acc += weight * values[i];
    }
  }
  [[nodiscard]] float output() const { return acc * inverse_sum(state); }
};

struct Row {
  std::vector<float> scores, values;
};

Row random_row(unsigned seed, std::size_t length, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Row row;
  for (std::size_t i = 0; i < length; ++i)
    row.scores.push_back(normal(random) * spread), row.values.push_back(normal(random));
  return row;
}

void expect_like_float64(const Running& running, const Row& row) {
  double largest = -INFINITY, sum = 0, acc = 0;
  for (const float s : row.scores) largest = std::max(largest, static_cast<double>(s));
  for (std::size_t i = 0; i < row.scores.size(); ++i) {
    const double weight = std::exp(row.scores[i] - largest);
    sum += weight, acc += weight * row.values[i];
  }
  EXPECT_NEAR(running.output(), acc / sum, 1e-4);
  EXPECT_NEAR(log_sum_exp(running.state), largest + std::log(sum), 1e-5 * (1 + std::abs(largest)));
}

TEST(Softmax, OnlineEqualsWhole) {
  for (const float spread : {0.1f, 1.0f, 30.0f})
    for (unsigned seed = 0; seed < 20; ++seed) {
      const Row row = random_row(seed, 96, spread);
      Running running;
      for (std::size_t at = 0; at < 96; at += 16)
        running.add({row.scores.begin() + at, row.scores.begin() + at + 16},
                    {row.values.begin() + at, row.values.begin() + at + 16});
      expect_like_float64(running, row);
    }
}

TEST(Softmax, HiddenTilesBeforeBetweenAndAfterChangeNothing) {
  const Row row = random_row(3, 16, 1);
  const std::vector<float> hidden(16, minus_infinity()), anything(16, 1.0f);
  Running plain, mixed;
  plain.add(row.scores, row.values);
  mixed.add(hidden, anything);
  EXPECT_EQ(mixed.state.sum, 0.0f);
  mixed.add(row.scores, row.values);
  mixed.add(hidden, anything);
  EXPECT_EQ(mixed.state.row_max, plain.state.row_max);
  EXPECT_EQ(mixed.state.sum, plain.state.sum);
  EXPECT_EQ(mixed.acc, plain.acc);
}

TEST(Softmax, ARowThatSeesNothingIsZeroAndMinusInfinity) {
  Running nothing;
  EXPECT_EQ(nothing.output(), 0.0f);
  EXPECT_EQ(log_sum_exp(nothing.state), minus_infinity());
  nothing.add(std::vector<float>(8, minus_infinity()), std::vector<float>(8, 5.0f));
  EXPECT_EQ(nothing.output(), 0.0f);
  EXPECT_EQ(log_sum_exp(nothing.state), minus_infinity());
}

TEST(Softmax, MergedHalvesEqualTheWhole) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Row row = random_row(seed, 64, 8);
    Running first, second;
    first.add({row.scores.begin(), row.scores.begin() + 32}, {row.values.begin(), row.values.begin() + 32});
    second.add({row.scores.begin() + 32, row.scores.end()}, {row.values.begin() + 32, row.values.end()});
    const MergeFactors factors = merge(first.state, second.state);
    first.acc = first.acc * factors.first + second.acc * factors.second;
    expect_like_float64(first, row);
  }
}

TEST(Softmax, MergingWithNothingChangesNothing) {
  const Row row = random_row(9, 32, 1);
  Running some;
  some.add(row.scores, row.values);
  SoftmaxState left = some.state, right = empty_softmax();
  const MergeFactors kept = merge(left, empty_softmax());
  EXPECT_EQ(kept.first, 1.0f);
  EXPECT_EQ(kept.second, 0.0f);
  EXPECT_EQ(left.sum, some.state.sum);
  const MergeFactors taken = merge(right, some.state);
  EXPECT_EQ(taken.first, 0.0f);
  EXPECT_EQ(taken.second, 1.0f);
  EXPECT_EQ(right.row_max, some.state.row_max);
  SoftmaxState nothing = empty_softmax();
  (void)merge(nothing, empty_softmax());
  EXPECT_EQ(nothing.sum, 0.0f);
  EXPECT_EQ(log_sum_exp(nothing), minus_infinity());
}

TEST(Softmax, ASinkIsOneMoreScoreWithoutAValue) {
  for (const float sink : {-20.0f, 0.0f, 3.0f, 50.0f}) {
    Row row = random_row(11, 32, 2);
    Running running;
    running.add(row.scores, row.values);
    running.acc *= add_sink(running.state, sink);
    row.scores.push_back(sink), row.values.push_back(0);
    expect_like_float64(running, row);
  }
  SoftmaxState empty = empty_softmax();
  EXPECT_EQ(add_sink(empty, minus_infinity()), 1.0f) << "a sink of -inf is none";
  EXPECT_EQ(empty.sum, 0.0f);
  (void)add_sink(empty, 2.0f);
  EXPECT_NEAR(log_sum_exp(empty), 2.0f, 1e-6) << "a sink alone";
}

// Lowest, highest and both sides of every multiple near them: where a rounded multiplier would slip.
void expect_exact_division(int divisor) {
  const Divider divider = make_divider(divisor);
  const long long most = std::numeric_limits<int>::max();
  const long long last = most / divisor;
  for (const long long quotient : {0LL, 1LL, 2LL, last / 2, last - 1, last})
    for (long long off = -2; off <= 2; ++off) {
      const long long n = quotient * divisor + off;
      if (n < 0 || n > most) continue;
      EXPECT_EQ(divider.divide(static_cast<int>(n)), n / divisor) << n << " / " << divisor;
    }
  EXPECT_EQ(divider.divide(static_cast<int>(most)), most / divisor) << divisor;
}

TEST(Divider, IsExact) {
  for (int divisor = 1; divisor <= 4096; ++divisor) expect_exact_division(divisor);
  for (int shift = 1; shift < 31; ++shift)
    for (int off = -1; off <= 1; ++off) expect_exact_division(std::max((1 << shift) + off, 1));
  expect_exact_division(std::numeric_limits<int>::max());
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) expect_exact_division(static_cast<int>(random() >> (1 + i % 28)) | 1);
  for (int divisor = 1; divisor < 70; ++divisor)
    for (int n = 0; n < 5000; ++n) ASSERT_EQ(make_divider(divisor).divide(n), n / divisor);
}

}  // namespace
}  // namespace tessera::cuda::tile
