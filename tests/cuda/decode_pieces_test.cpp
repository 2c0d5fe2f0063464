// How the decode kernels cut keys and share the pieces: arithmetic that the kernels and the host have in
// common.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/decode/pieces.hpp"

namespace tessera::cuda::decode {
namespace {

Cut cut_of(int tiles, int sequences) {
  return cut(tiles, share_of_pieces(kFewPieces, sequences), share_of_pieces(kMostPieces, sequences));
}

TEST(DecodePieces, CoverAllTilesAndAreNotTooMany) {
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

TEST(DecodePieces, AreSmallForShortEntriesAndLargerWhereThereWouldBeTooMany) {
  EXPECT_EQ(cut_of(16, 8).tiles(), 2);  // 1,024 keys, 8 heads: 64 pieces
  EXPECT_EQ(cut_of(32, 8).tiles(), 4);
  EXPECT_EQ(cut_of(128, 8).pieces, 32);
  EXPECT_EQ(cut_of(512, 8).tiles(), 16);
  EXPECT_EQ(cut_of(512, 300).pieces, 1);
}

// Every piece belongs to one block, and a block's pieces are those from first_of(block) on.
TEST(DecodePieces, EveryPieceHasOneBlock) {
  for (const int blocks : {1, 3, 7, 132, 264}) {
    for (const std::vector<int>& tiles :
         {std::vector<int>{0}, {1}, {300}, {0, 0, 5, 2048, 1, 17}, std::vector<int>(64, 16)}) {
      constexpr int kSequences = 8;
      Line line{0, blocks};
      for (const int each : tiles) {
        const Cut c = cut_of(each, kSequences);
        line.length += static_cast<long long>(c.pieces) * kSequences * c.cost();
      }
      EXPECT_EQ(line.first_of(0), 0);
      EXPECT_EQ(line.first_of(blocks), line.length);
      long long start = 0;
      for (const int each : tiles) {
        const Cut c = cut_of(each, kSequences);
        for (int unit = 0; unit < c.pieces * kSequences; ++unit) {
          const long long at = start + static_cast<long long>(unit) * c.cost();
          const int block = line.block_of(at);
          ASSERT_GE(at, line.first_of(block));
          ASSERT_LT(at, line.first_of(block + 1));
          ASSERT_LE(first_from(line.first_of(block), start, c.cost()), unit);
          ASSERT_GT(first_from(line.first_of(block + 1), start, c.cost()), unit);
        }
        start += static_cast<long long>(c.pieces) * kSequences * c.cost();
      }
    }
  }
}

TEST(DecodePieces, LongLinesDoNotOverflow) {
  const Line line{(1ll << 45) + 12345, 264};
  for (const long long at : {0ll, 1ll, 1ll << 33, line.length / 2, line.length - 1}) {
    const int block = line.block_of(at);
    EXPECT_GE(at, line.first_of(block));
    EXPECT_LT(at, line.first_of(block + 1));
  }
}

}  // namespace
}  // namespace tessera::cuda::decode
