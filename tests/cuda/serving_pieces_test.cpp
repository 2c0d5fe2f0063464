// How the serving kernels cut keys and share the pieces: arithmetic that the kernels and the host have in
// common.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/serving/pieces.hpp"

namespace tessera::cuda::serving {
namespace {

Cut cut_of(int tiles, int sequences) { return cut(tiles, share_of_pieces(kMostPieces, sequences)); }

TEST(ServingPieces, CoverAllTilesAndAreNotTooMany) {
  for (const int sequences : {1, 2, 3, 8, 40, 64, 255, 256, 257, 5000}) {
    for (int tiles = 0; tiles < 5000; tiles = tiles * 5 / 4 + 1) {
      const Cut c = cut_of(tiles, sequences);
      EXPECT_GE(c.pieces, 1);
      EXPECT_GE(static_cast<long long>(c.pieces) * c.tiles(), tiles);
      EXPECT_LT(static_cast<long long>(c.pieces - 1) * c.tiles(), tiles == 0 ? 1 : tiles) << "an empty piece";
      if (c.pieces > 1) {
        EXPECT_LE(c.pieces * sequences, kMostPieces) << tiles << " tiles, " << sequences;
      }
      EXPECT_GE(c.shift, kLeastShift);
    }
  }
}

TEST(ServingPieces, AreSmallForShortEntriesAndLargerWhereThereWouldBeTooMany) {
  EXPECT_EQ(cut_of(16, 8).tiles(), 2);  // 1,024 keys, 8 heads: 64 pieces
  EXPECT_EQ(cut_of(32, 8).tiles(), 4);
  EXPECT_EQ(cut_of(128, 8).pieces, 32);
  EXPECT_EQ(cut_of(512, 8).tiles(), 16);
  EXPECT_EQ(cut_of(512, 300).pieces, 1);
}

// Every piece belongs to one block, and a block's pieces are those from first_of(block) on.
TEST(ServingPieces, EveryPieceHasOneBlock) {
  for (const int coarse : {0, 1, 5})
    for (const int blocks : {1, 3, 7, 132, 264}) {
      for (const std::vector<int>& tiles :
           {std::vector<int>{0}, {1}, {300}, {0, 0, 5, 2048, 1, 17}, std::vector<int>(64, 16)}) {
        constexpr int kSequences = 8;
        int length = 0;
        for (const int each : tiles) {
          const Cut c = cut_of(each, kSequences);
          length += c.pieces * kSequences * c.cost(coarse);
        }
        const Line line = make_line(length, blocks);
        EXPECT_EQ(line.first_of(0), 0);
        EXPECT_EQ(line.first_of(blocks), length);
        int start = 0;
        for (const int each : tiles) {
          const Cut c = cut_of(each, kSequences);
          const int cost = c.cost(coarse);
          for (int unit = 0; unit < c.pieces * kSequences; ++unit) {
            const int at = start + unit * cost, block = line.block_of(at);
            ASSERT_GE(at, line.first_of(block));
            ASSERT_LT(at, line.first_of(block + 1));
            ASSERT_LE(first_from(line.first_of(block), start, cost), unit);
            ASSERT_GT(first_from(line.first_of(block + 1), start, cost), unit);
          }
          start += c.pieces * kSequences * cost;
        }
      }
    }
}

}  // namespace
}  // namespace tessera::cuda::serving
