// New rows and rope in the oracle, worked out on paper, and what makes rope what it is: scores depend on how
// far apart rows stand, and not on where.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "oracle/append.hpp"
#include "oracle/oracle.hpp"

namespace {

using Floats = std::vector<float>;

const float kNan = std::numeric_limits<float>::quiet_NaN();

tessera_tensor table(Floats& values, std::int64_t pairs) {
  return {values.data(),
          TESSERA_F32,
          2,
          {static_cast<std::int64_t>(values.size()) / pairs, pairs, 0, 0},
          {pairs, 1, 0, 0}};
}

// One entry and head, all in f32: two queries of four dimensions among three keys, and tables of quarters of
// a turn for the first pair and of halves for the second.
struct Paper {
  Floats q = {1, 2, 3, 4, 5, 6, 7, 8};
  Floats k = {9, 9, 9, 9, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan};
  Floats v = {1, kNan, kNan};
  Floats new_k = {1, 2, 3, 4, 10, 20, 30, 40}, new_v = {2, 3};
  Floats cos = {1, 1, 0, -1, -1, 1, 0, -1}, sin = {0, 0, 1, 0, 0, 0, -1, 0};
  std::vector<std::int32_t> positions = {0, 3};
  tessera_attention p = TESSERA_ATTENTION_INIT;

  Paper() {
    p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, 2, 4);
    p.key = tessera_tensor_4d(k.data(), TESSERA_F32, 1, 1, 3, 4);
    p.value = tessera_tensor_4d(v.data(), TESSERA_F32, 1, 1, 3, 1);
    p.output = tessera_tensor_4d(nullptr, TESSERA_F32, 1, 1, 2, 1);
    p.new_key = tessera_tensor_4d(new_k.data(), TESSERA_F32, 1, 1, 2, 4);
    p.new_value = tessera_tensor_4d(new_v.data(), TESSERA_F32, 1, 1, 2, 1);
    p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    p.mask.right = 0;
  }
  void add_rope() { p.rope = {table(cos, 2), table(sin, 2), 0, 0}; }
  Floats stored() {
    Floats key = k, value = v;
    tessera::oracle::store_new_rows(p, key.data(), value.data());
    return key;
  }
  Floats turned() const {
    const std::vector<unsigned char> bytes = tessera::oracle::turned_query(p);
    const auto* floats = reinterpret_cast<const float*>(bytes.data());
    return {floats, floats + q.size()};
  }
};

TEST(OracleAppend, RowsStandAtTheEnd) {
  Paper x;
  EXPECT_EQ(x.stored(), (Floats{9, 9, 9, 9, 1, 2, 3, 4, 10, 20, 30, 40}));
  const tessera::oracle::Rest rest(x.p);
  const auto* value = static_cast<const float*>(rest.problem().value.data);
  EXPECT_EQ(Floats(value, value + 3), (Floats{1, 2, 3}));
  EXPECT_TRUE(std::isnan(x.v[1])) << "the problem's own was written to";
  EXPECT_FALSE(tessera::oracle::has_append(rest.problem()));
}

// Query 0 stands at 1, query 1 at 2. At 1 the pair (0, 2) is turned by a quarter, (x, y) to (-y, x), and (1,
// 3) by a half; at 2 (0, 2) by a half and (1, 3) not at all.
TEST(OracleAppend, Halves) {
  Paper x;
  x.add_rope();
  EXPECT_EQ(x.turned(), (Floats{-3, -2, 1, -4, -5, 6, -7, 8}));
  EXPECT_EQ(x.stored(), (Floats{9, 9, 9, 9, -3, -2, 1, -4, -10, 20, -30, 40}));
}

TEST(OracleAppend, Interleaved) {
  Paper x;
  x.add_rope();
  x.p.rope.interleaved = 1;  // pairs (0, 1) and (2, 3)
  EXPECT_EQ(x.turned(), (Floats{-2, 1, -3, -4, -5, -6, 7, 8}));
}

// One pair, dimensions 1 and 2, by the angles of the tables' first column: row 0 a quarter, row 1 a half.
TEST(OracleAppend, SomeDimensions) {
  Paper x;
  x.add_rope();
  for (tessera_tensor* t : {&x.p.rope.cos, &x.p.rope.sin}) t->shape[1] = 1;
  x.p.rope.first = 1;
  EXPECT_EQ(x.turned(), (Floats{1, -3, 2, 4, 5, -6, -7, 8}));
  x.p.rope.interleaved = 1;
  EXPECT_EQ(x.turned(), (Floats{1, -3, 2, 4, 5, -6, -7, 8}));
}

// Row 0 is not turned at position 0; at 3 (0, 2) goes back by a quarter, (x, y) to (y, -x), and (1, 3) by a
// half. Where rows are stored is another matter.
TEST(OracleAppend, Positions) {
  Paper x;
  x.add_rope();
  x.p.positions = {x.positions.data(), TESSERA_I32, 2, {1, 2, 0, 0}, {2, 1, 0, 0}};
  EXPECT_EQ(x.turned(), (Floats{1, 2, 3, 4, 7, -6, -5, -8}));
  EXPECT_EQ(x.stored(), (Floats{9, 9, 9, 9, 1, 2, 3, 4, 30, -20, -10, -40}));
}

// Of one key the first of two rows would stand before key 0: it is not stored, and turned by position 0.
TEST(OracleAppend, RowsBeforeTheFirstKey) {
  Paper x;
  x.add_rope();
  std::vector<std::int32_t> lengths = {1};
  x.p.key_lengths = {lengths.data(), TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
  EXPECT_EQ(x.turned(), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
  const Floats key = x.stored();
  EXPECT_EQ(Floats(key.begin(), key.begin() + 4), (Floats{10, 20, 30, 40}));
  EXPECT_TRUE(std::isnan(key[4]));
}

// Two entries of one row each, in pages of two: entry 0 has its third key in page 2, entry 1 its first in
// page
// 1. The row in front belongs to nobody and is not stored.
TEST(OracleAppend, RaggedRowsInPages) {
  Floats q = {kNan, 1, 1}, k(6, 0), v(6, 0), new_k = {kNan, 5, 6}, new_v = {kNan, 50, 60};
  std::vector<std::int64_t> offsets = {1, 2, 3};
  std::vector<std::int32_t> lengths = {3, 1}, pages = {0, 2, 1, -1};
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, 3, 1);
  p.key = tessera_tensor_4d(k.data(), TESSERA_F32, 3, 1, 2, 1);
  p.value = tessera_tensor_4d(v.data(), TESSERA_F32, 3, 1, 2, 1);
  p.output = tessera_tensor_4d(nullptr, TESSERA_F32, 1, 1, 3, 1);
  p.new_key = tessera_tensor_4d(new_k.data(), TESSERA_F32, 1, 1, 3, 1);
  p.new_value = tessera_tensor_4d(new_v.data(), TESSERA_F32, 1, 1, 3, 1);
  p.query_offsets = {offsets.data(), TESSERA_I64, 1, {3, 0, 0, 0}, {1, 0, 0, 0}};
  p.key_lengths = {lengths.data(), TESSERA_I32, 1, {2, 0, 0, 0}, {1, 0, 0, 0}};
  p.page_table = {pages.data(), TESSERA_I32, 2, {2, 2, 0, 0}, {2, 1, 0, 0}};
  p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  tessera::oracle::store_new_rows(p, k.data(), v.data());
  EXPECT_EQ(k, (Floats{0, 0, 6, 0, 5, 0}));
  EXPECT_EQ(v, (Floats{0, 0, 60, 0, 50, 0}));
}

// x * c - y * s is two products and a difference, each rounded to f32: 1 + 2^-12 squared loses its last bit
// before 1 is taken off. A fused one would keep it.
TEST(OracleAppend, EachOperationIsRounded) {
  const float a = 1 + 0x1p-12f;
  Floats q = {a, 1}, k = {0, 0}, v = {0}, cos = {a}, sin = {1};
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, 1, 2);
  p.key = tessera_tensor_4d(k.data(), TESSERA_F32, 1, 1, 1, 2);
  p.value = tessera_tensor_4d(v.data(), TESSERA_F32, 1, 1, 1, 1);
  p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  p.rope = {table(cos, 1), table(sin, 1), 0, 0};
  const std::vector<unsigned char> bytes = tessera::oracle::turned_query(p);
  EXPECT_EQ(reinterpret_cast<const float*>(bytes.data())[0], 0x1p-11f);
}

// Scores of turned rows depend on how far apart they stand alone: the same rows further on have the same.
TEST(OracleAppend, ScoresDependOnDistance) {
  constexpr std::int64_t kDim = 8, kFar = 40;
  Floats cos, sin;
  for (std::int64_t at = 0; at < kFar; ++at) {
    for (std::int64_t j = 0; j < kDim / 2; ++j) {
      const double angle = static_cast<double>(at) * std::pow(100.0, -static_cast<double>(j) / 4);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  Floats q, new_k;
  for (int n = 0; n < kDim; ++n) {
    q.push_back(std::sin(static_cast<float>(3 * n + 1)));
    new_k.push_back(std::cos(static_cast<float>(5 * n)));
  }
  // A row at each position: [positions, dim], turned as queries are.
  const auto turned = [&](const Floats& row, int interleaved) {
    Floats rows;
    for (std::int64_t at = 0; at < kFar; ++at) rows.insert(rows.end(), row.begin(), row.end());
    Floats key(rows.size(), 0);
    tessera_attention p = TESSERA_ATTENTION_INIT;
    p.query = tessera_tensor_4d(rows.data(), TESSERA_F32, 1, 1, kFar, kDim);
    p.key = p.value = tessera_tensor_4d(key.data(), TESSERA_F32, 1, 1, kFar, kDim);
    p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    p.rope = {table(cos, kDim / 2), table(sin, kDim / 2), interleaved, 0};
    const std::vector<unsigned char> bytes = tessera::oracle::turned_query(p);
    const auto* floats = reinterpret_cast<const float*>(bytes.data());
    return Floats(floats, floats + rows.size());
  };
  for (const int interleaved : {0, 1}) {
    const Floats queries = turned(q, interleaved), keys = turned(new_k, interleaved);
    const auto score = [&](std::int64_t i, std::int64_t j) {
      double dot = 0;
      for (std::int64_t d = 0; d < kDim; ++d)
        dot += static_cast<double>(queries[static_cast<std::size_t>(i * kDim + d)]) *
               static_cast<double>(keys[static_cast<std::size_t>(j * kDim + d)]);
      return dot;
    };
    // Eight dimensions of up to 1, each turned by two products: some roundings of 2^-24 each.
    for (std::int64_t distance = 0; distance < 10; ++distance)
      for (std::int64_t at = distance; at < kFar; ++at)
        EXPECT_NEAR(score(at, at - distance), score(distance, 0), 4e-6) << at << " " << distance;
    EXPECT_GT(std::fabs(score(9, 0) - score(0, 0)), 0.1) << "nothing was turned";
  }
}

}  // namespace
