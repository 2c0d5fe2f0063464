// The closed-form pair count against plain counting.
#include <gtest/gtest.h>

#include "core/plan.hpp"

namespace {

double count_pairs(const tessera::core::Problem& p) {
  double pairs = 0;
  for (std::int64_t i = 0; i < p.queries; ++i) {
    for (std::int64_t j = 0; j < p.keys; ++j) {
      const std::int64_t position = i + p.position_offset(p.keys);
      if (!p.visibility.has_band || (j >= position - p.visibility.left && j <= position + p.visibility.right))
        pairs += 1;
    }
  }
  return pairs;
}

TEST(Cost, VisiblePairsMatchCounting) {
  using tessera::core::kUnboundedReach;
  tessera::core::Problem p;
  p.visibility.has_band = true;
  for (std::int64_t queries : {0, 1, 2, 5, 9}) {
    for (std::int64_t keys : {0, 1, 3, 7, 12}) {
      for (bool bottom_right : {false, true}) {
        for (std::int64_t left : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4}, kUnboundedReach}) {
          for (std::int64_t right : {std::int64_t{0}, std::int64_t{2}, std::int64_t{20}, kUnboundedReach}) {
            p.queries = queries;
            p.keys = keys;
            p.visibility.align_bottom_right = bottom_right;
            p.visibility.left = left;
            p.visibility.right = right;
            EXPECT_EQ(tessera::core::visible_pairs(p), count_pairs(p))
                << queries << "x" << keys << " left " << left << " right " << right << " br " << bottom_right;
          }
        }
      }
    }
  }
}

// Keys and values count by their own dtype: 2 heads share K and V of 10 keys of 8 bits.
TEST(Cost, BytesOfACacheAreItsOwn) {
  tessera::core::Problem p;
  p.batch = 1, p.heads = 2, p.kv_heads = 1, p.queries = 3, p.keys = 10, p.dim = 8, p.value_dim = 4;
  p.dtype = p.output.dtype = TESSERA_BF16;
  p.kv.dtype = TESSERA_I8;
  EXPECT_EQ(tessera::core::cost(p).bytes, 2 * 3 * 8 * 2 + 10 * (8 + 4) + 2 * 3 * 4 * 2);
  p.kv.dtype = TESSERA_BF16;
  EXPECT_EQ(tessera::core::cost(p).bytes, 2 * 3 * 8 * 2 + 10 * (8 + 4) * 2 + 2 * 3 * 4 * 2);
}

}  // namespace
