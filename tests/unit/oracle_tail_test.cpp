// Keys in two tensors in the oracle: scores and stored rows worked out on paper.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "oracle/append.hpp"
#include "oracle/oracle.hpp"

namespace {

using Floats = std::vector<float>;
using tessera::oracle::attend;
const float kNan = std::numeric_limits<float>::quiet_NaN();

// One query (1, 2 | 3) and two keys, (1, 1 | 1) and (0, 1 | 2): scores 6 and 8.
struct Paper {
  Floats q = {1, 2, 3}, k = {1, 1, 0, 1}, tail = {1, 2}, v = {0, 1}, o = {0};
  tessera_attention p = TESSERA_ATTENTION_INIT;

  Paper() {
    p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, 1, 3);
    p.key = tessera_tensor_4d(k.data(), TESSERA_F32, 1, 1, 2, 2);
    p.key_tail = tessera_tensor_4d(tail.data(), TESSERA_F32, 1, 1, 2, 1);
    p.value = tessera_tensor_4d(v.data(), TESSERA_F32, 1, 1, 2, 1);
    p.output = tessera_tensor_4d(o.data(), TESSERA_F32, 1, 1, 1, 1);
  }
};

TEST(OracleTail, ScoresCountBothParts) {
  Paper x;
  x.p.scale = 1;
  const tessera::oracle::Result truth = attend(x.p), plain = tessera::oracle::plain(x.p);
  EXPECT_NEAR(truth.lse[0], 8 + std::log(1 + std::exp(-2.0)), 1e-12);
  EXPECT_NEAR(truth.output[0], 1 / (1 + std::exp(-2.0)), 1e-12);
  EXPECT_NEAR(plain.lse[0], truth.lse[0], 1e-5);
}

TEST(OracleTail, TheScaleIsThatOfTheWholeHead) {
  Paper x;
  EXPECT_NEAR(attend(x.p).lse[0], 8 / std::sqrt(3.0) + std::log(1 + std::exp(-2 / std::sqrt(3.0))), 1e-12);
}

// Codes are multiplied by their scale, the tail is not: (2 * 3 * (1 + 1) - ...) 0x38 is 1 of e4m3.
TEST(OracleTail, ScalesAreTheCodesAlone) {
  Paper x;
  std::vector<std::uint8_t> codes = {0x38, 0x38, 0x00, 0x38}, values = {0x00, 0x38};
  Floats scales = {10};
  x.p.scale = 1;
  x.p.key = tessera_tensor_4d(codes.data(), TESSERA_F8E4M3, 1, 1, 2, 2);
  x.p.value = tessera_tensor_4d(values.data(), TESSERA_F8E4M3, 1, 1, 2, 1);
  x.p.key_scales = tessera_tensor_4d(scales.data(), TESSERA_F32, 1, 1, 1, 1);
  // 10 * (1 + 2) + 3 and 10 * 2 + 6.
  EXPECT_NEAR(attend(x.p).lse[0], 33 + std::log(1 + std::exp(-7.0)), 1e-12);
}

// Keys 1 and 0 of pages 1 and 0: the tail lies in pages of the same table.
TEST(OracleTail, PagesAreOfOneTable) {
  Paper x;
  x.p.scale = 1;
  x.p.key = tessera_tensor_4d(x.k.data(), TESSERA_F32, 2, 1, 1, 2);
  x.p.key_tail = tessera_tensor_4d(x.tail.data(), TESSERA_F32, 2, 1, 1, 1);
  x.p.value = tessera_tensor_4d(x.v.data(), TESSERA_F32, 2, 1, 1, 1);
  std::vector<std::int32_t> table = {1, -1}, length = {1};
  x.p.page_table = {table.data(), TESSERA_I32, 2, {1, 2, 0, 0}, {2, 1, 0, 0}};
  x.p.key_lengths = {length.data(), TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
  x.k[0] = x.tail[0] = kNan;  // of page 0, which nobody has
  EXPECT_NEAR(attend(x.p).lse[0], 8, 1e-12);
  EXPECT_EQ(attend(x.p).output[0], 1);
}

// A new row (1, 2 | 3) on key 1. Its pair of dimensions 1 and 2 is turned by a quarter, (x, y) to (-y, x):
// one is key's, the other the tail's.
TEST(OracleTail, ANewRowGoesToBoth) {
  Paper x;
  Floats new_k = {1, 2, 3}, new_v = {5}, cos = {1, 0}, sin = {0, 1};
  x.p.new_key = tessera_tensor_4d(new_k.data(), TESSERA_F32, 1, 1, 1, 3);
  x.p.new_value = tessera_tensor_4d(new_v.data(), TESSERA_F32, 1, 1, 1, 1);
  x.p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  Floats key = x.k, value = x.v, tail = x.tail;
  tessera::oracle::store_new_rows(x.p, key.data(), value.data(), tail.data());
  EXPECT_EQ(key, (Floats{1, 1, 1, 2}));
  EXPECT_EQ(tail, (Floats{1, 3}));
  EXPECT_EQ(value, (Floats{0, 5}));
  x.p.rope.cos = {cos.data(), TESSERA_F32, 2, {2, 1, 0, 0}, {1, 1, 0, 0}};
  x.p.rope.sin = {sin.data(), TESSERA_F32, 2, {2, 1, 0, 0}, {1, 1, 0, 0}};
  x.p.rope.first = 1;
  tessera::oracle::store_new_rows(x.p, key.data(), value.data(), tail.data());
  EXPECT_EQ(key, (Floats{1, 1, 1, -3}));
  EXPECT_EQ(tail, (Floats{1, 2}));
  const tessera::oracle::Rest rest(x.p);
  EXPECT_EQ(static_cast<const float*>(rest.problem().key_tail.data)[1], 2.0f);
  EXPECT_EQ(x.tail, (Floats{1, 2})) << "the problem's own was written to";
}

// Into codes: x / scale of the key's part, the tail rounded to the query's dtype. 2.3 / 0.5 is 4.6, nearest
// e4m3 4.5 (0x49); the tail's 2.3 in f16 is 0x409a.
TEST(OracleTail, ANewRowOfCodes) {
  std::vector<std::uint16_t> q(2), new_k(2), tail = {0};
  for (std::size_t n = 0; n < 2; ++n)
    tessera::oracle::store(new_k.data(), TESSERA_F16, static_cast<std::int64_t>(n), 2.3);
  std::vector<std::uint8_t> key = {0}, value = {0};
  Floats scales = {0.5f};
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.query = tessera_tensor_4d(q.data(), TESSERA_F16, 1, 1, 1, 2);
  p.key = tessera_tensor_4d(key.data(), TESSERA_F8E4M3, 1, 1, 1, 1);
  p.key_tail = tessera_tensor_4d(tail.data(), TESSERA_F16, 1, 1, 1, 1);
  p.value = p.key;
  p.key_scales = tessera_tensor_4d(scales.data(), TESSERA_F32, 1, 1, 1, 1);
  p.new_key = tessera_tensor_4d(new_k.data(), TESSERA_F16, 1, 1, 1, 2);
  p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  tessera::oracle::store_new_rows(p, key.data(), nullptr, tail.data());
  EXPECT_EQ(key[0], 0x49);
  EXPECT_EQ(tail[0], 0x409a);
}

}  // namespace
