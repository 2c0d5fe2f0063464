// The oracle on ragged, paged and prior problems worked out on paper. One head of one dimension, scale 1: a
// score is the product of query and key, so keys of ln 1, ln 2, ... and a query of 1 give weights in whole
// proportions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "oracle/oracle.hpp"

namespace {

using tessera::oracle::Result;

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();
const float kLn2 = std::log(2.0f), kLn3 = std::log(3.0f);

tessera_tensor vector_of(std::vector<std::int32_t>& values) {
  return {values.data(), TESSERA_I32, 1, {static_cast<std::int64_t>(values.size()), 0, 0, 0}, {1, 0, 0, 0}};
}

struct Paper {
  std::vector<float> q, k, v;
  std::vector<std::int32_t> offsets, key_offsets, lengths, table;
  tessera_attention p = TESSERA_ATTENTION_INIT;

  // `page`: rows of a page; 0: the keys are one behind the other.
  void lay_out(std::int64_t page = 0) {
    p.scale = 1;
    p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, static_cast<std::int64_t>(q.size()), 1);
    p.output = tessera_tensor_4d(nullptr, TESSERA_F32, 1, 1, p.query.shape[2], 1);
    p.query_offsets = vector_of(offsets);
    const auto keys = static_cast<std::int64_t>(k.size()), rows = page == 0 ? keys : page;
    p.key = tessera_tensor_4d(k.data(), TESSERA_F32, page == 0 ? 1 : keys / page, 1, rows, 1);
    p.value = tessera_tensor_4d(v.data(), TESSERA_F32, p.key.shape[0], 1, rows, 1);
    if (page == 0) p.key_offsets = vector_of(key_offsets);
    if (page > 0) p.key_lengths = vector_of(lengths);
    const std::int64_t entries = static_cast<std::int64_t>(lengths.size());
    const std::int64_t columns = page == 0 ? 0 : static_cast<std::int64_t>(table.size()) / entries;
    if (page > 0) p.page_table = {table.data(), TESSERA_I32, 2, {entries, columns, 0, 0}, {columns, 1, 0, 0}};
  }
};

void expect(const Result& r, const std::vector<double>& output, const std::vector<double>& lse) {
  ASSERT_EQ(r.output.size(), output.size());
  for (std::size_t n = 0; n < output.size(); ++n) {
    EXPECT_NEAR(r.output[n], output[n], 1e-6) << "row " << n;
    if (std::isinf(lse[n]))
      EXPECT_EQ(r.lse[n], lse[n]) << "row " << n;
    else
      EXPECT_NEAR(r.lse[n], lse[n], 1e-6) << "row " << n;
  }
}

// Five rows: one of no entry, two of entry 0 (keys with weights 1 and 3, values 4 and 8: 7), none of entry 1,
// one of entry 2 (weights 1 and 2, values 3 and 6: 5), one of no entry. Key 0 and the last belong to nobody.
Paper ragged() {
  Paper x;
  x.q = {kNan, 1, 1, 1, kNan};
  x.offsets = {1, 3, 3, 4};
  x.k = {kNan, 0, kLn3, 9, 0, kLn2, kNan};
  x.v = {kNan, 4, 8, 99, 3, 6, kNan};
  x.key_offsets = {1, 3, 4, 6};
  x.lay_out();
  return x;
}

TEST(OracleSequences, RaggedRowsAndKeys) {
  const Paper x = ragged();
  for (const Result& r : {tessera::oracle::attend(x.p), tessera::oracle::plain(x.p)})
    expect(r, {0, 7, 7, 5, 0}, {-INFINITY, std::log(4.0), std::log(4.0), std::log(3.0), -INFINITY});
}

// Bottom-right: row 0 of entry 0 stands on its key 0 and sees value 4 alone, row 1 both.
TEST(OracleSequences, BottomRightIsTheEntrysOwn) {
  Paper x = ragged();
  x.p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  x.p.mask.right = 0;
  expect(tessera::oracle::attend(x.p), {0, 4, 7, 5, 0},
         {-INFINITY, 0, std::log(4.0), std::log(3.0), -INFINITY});
}

// The same keys in pages of 2 rows: entry 0 in page 3, entry 1 without keys, entry 2 in pages 0 and 1, of
// which the second key of page 1 is past its length: weights 1, 2, 3 and values 3, 6, 8.
TEST(OracleSequences, Pages) {
  Paper x;
  x.q = {1, 1, 1};
  x.offsets = {0, 1, 2, 3};
  x.k = {0, kLn2, kLn3, kNan, kNan, kNan, 0, kLn3};
  x.v = {3, 6, 8, kNan, kNan, kNan, 4, 8};
  x.lengths = {2, 0, 3};
  x.table = {3, -1, -1, -1, 0, 1};
  x.lay_out(2);
  expect(tessera::oracle::attend(x.p), {7, 0, 39.0 / 6}, {std::log(4.0), -INFINITY, std::log(6.0)});
}

// A page that is needed and is not there makes NaN: no kernel can then pass by luck.
TEST(OracleSequences, AMissingPageIsNan) {
  Paper x;
  x.q = {1};
  x.offsets = {0, 1};
  x.k = x.v = {1, 1};
  x.lengths = {2};
  x.table = {7};
  x.lay_out(2);
  EXPECT_TRUE(std::isnan(tessera::oracle::attend(x.p).output[0]));
}

// Columns are the last two keys of each entry: of entry 0 both, of which the first is hidden from its second
// row.
TEST(OracleSequences, MaskOverTheLastKeys) {
  Paper x = ragged();
  std::vector<unsigned char> mask = {0, 0, 1, 1, 0, 1, 1, 0, 0, 0};
  x.p.mask.tensor = {mask.data(), TESSERA_BOOL, 2, {5, 2, 0, 0}, {2, 1, 0, 0}};
  x.p.mask.tensor_align = TESSERA_ALIGN_BOTTOM_RIGHT;
  expect(tessera::oracle::attend(x.p), {0, 7, 8, 3, 0},
         {-INFINITY, std::log(4.0), std::log(3.0), 0, -INFINITY});
  // One column: the last key. What stands before it is visible.
  x.p.mask.tensor = {mask.data(), TESSERA_BOOL, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
  expect(tessera::oracle::attend(x.p), {0, 4, 4, 3, 0}, {-INFINITY, 0, 0, 0, -INFINITY});
  // An additive one: ln 2 more for the last key of the entry makes 1 : 6 and 1 : 4.
  std::vector<float> bias = {kLn2};
  x.p.mask.tensor = {bias.data(), TESSERA_F32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
  expect(tessera::oracle::attend(x.p), {0, 52.0 / 7, 52.0 / 7, 27.0 / 5, 0},
         {-INFINITY, std::log(7.0), std::log(7.0), std::log(5.0), -INFINITY});
}

// Two parts. Row 1: weights 4 (part 0, output 10) and 4 of its own keys (7): 8.5. Row 2: the parts saw
// nothing. Row 3: weights 3 (part 1, output 11) and 3 of its own (5): 8. Rows of no entry take nothing in.
TEST(OracleSequences, PriorPartsAreTakenIn) {
  Paper x = ragged();
  std::vector<float> output = {1, 10, kNan, kNan, 1, 1, kNan, kNan, 11, 1};
  std::vector<float> lse = {0, std::log(4.0f), -kInf, -kInf, 0, 0, -kInf, -kInf, kLn3, 0};
  x.p.prior_output = tessera_tensor_4d(output.data(), TESSERA_F32, 2, 1, 5, 1);
  x.p.prior_lse = {lse.data(), TESSERA_F32, 3, {2, 1, 5, 0}, {5, 5, 1, 0}};
  for (const Result& r : {tessera::oracle::attend(x.p), tessera::oracle::plain(x.p)})
    expect(r, {0, 8.5, 7, 8, 0}, {-INFINITY, std::log(8.0), std::log(4.0), std::log(6.0), -INFINITY});
}

// Without keys the parts are merged: 1 : 3 of 4 and 8, and two empty ones are empty.
TEST(OracleSequences, WithoutKeysPriorPartsAreMerged) {
  Paper x;
  x.q = {1, 1};
  x.offsets = {0, 2};
  x.key_offsets = {0, 0};
  x.lay_out();
  std::vector<float> output = {4, kNan, 8, kNan}, lse = {0, -kInf, kLn3, -kInf};
  x.p.prior_output = tessera_tensor_4d(output.data(), TESSERA_F32, 2, 1, 2, 1);
  x.p.prior_lse = {lse.data(), TESSERA_F32, 3, {2, 1, 2, 0}, {2, 2, 1, 0}};
  expect(tessera::oracle::attend(x.p), {7, 0}, {std::log(4.0), -INFINITY});
  // A NaN among them makes the row NaN.
  lse[0] = kNan;
  EXPECT_TRUE(std::isnan(tessera::oracle::attend(x.p).output[0]));
}

}  // namespace
