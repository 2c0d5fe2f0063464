// The list of tiles that the wgmma kernel's blocks share, walked on the host as the blocks do: every tile is
// computed once, and every block has about the same to do, also where later rows see more keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

// Device code, compiled here for the host: which block is asking is a variable.
#define __device__
namespace {
struct {
  unsigned x;
} blockIdx, gridDim;
}  // namespace
#include "cuda/sm90/make_schedule.hpp"

namespace tessera::cuda::sm90 {
namespace {

struct Walk {
  std::map<std::tuple<int, int, int>, int> visits;  // row tile, head, batch
  std::vector<std::int64_t> work;                   // of each block, in tiles of keys: tile i sees i + 1
};

Walk walk(int row_tiles, bool unequal, int heads, int batch, int sms, int teams = 1) {
  const int blocks = std::min(sms, row_tiles * heads * batch);
  const Schedule schedule = make_schedule(row_tiles, heads, batch, blocks * teams, unequal);
  Walk walk;
  gridDim.x = static_cast<unsigned>(blocks);
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    walk.work.push_back(0);
    for (int team = 0; team < teams; ++team)
      for (Tiles tiles(schedule, team, teams); !tiles.done(); tiles.advance()) {
        const TileIndex at = tiles.index();
        EXPECT_TRUE(at.row_tile >= 0 && at.row_tile < row_tiles && at.head >= 0 && at.head < heads &&
                    at.batch >= 0 && at.batch < batch);
        ++walk.visits[{at.row_tile, at.head, at.batch}];
        walk.work.back() += at.row_tile + 1;
      }
  }
  return walk;
}

TEST(Sm90Schedule, EveryTileOnce) {
  for (const int row_tiles : {1, 2, 3, 4, 7, 16})
    for (const bool unequal : {false, true})
      for (const int heads : {1, 3, 8, 40})
        for (const int sms : {1, 5, 16, 132})
          for (const int teams : {1, 2}) {
            const Walk done = walk(row_tiles, unequal, heads, 2, sms, teams);
            EXPECT_EQ(done.visits.size(), static_cast<std::size_t>(row_tiles * heads * 2));
            for (const auto& [tile, times] : done.visits) EXPECT_EQ(times, 1);
          }
}

TEST(Sm90Schedule, EveryBlockHasAboutTheSameToDo) {
  // 16 row tiles are 8 pairs of 17 tiles of keys: 64 pairs for 16 blocks.
  const Walk even = walk(16, true, 4, 2, 16);
  for (const std::int64_t work : even.work) EXPECT_EQ(work, 4 * 17);
  // What pairs alone would take is a whole round more than what there is to do; so much is left of that.
  struct Shape {
    int row_tiles, heads;
    double most;
    int blocks = 132;
  };
  for (const auto& [row_tiles, heads, most, blocks] :
       {Shape{16, 64, 1.005}, Shape{32, 64, 1.015}, Shape{128, 16, 1.015}, Shape{64, 32, 1.015},
        Shape{33, 64, 1.05}, Shape{8, 40, 1.11}, Shape{32, 10, 1.13}, Shape{8, 64, 1.04},
        Shape{3, 512, 1.06, 131}, Shape{5, 512, 1.045, 131}, Shape{7, 512, 1.04, 131}}) {
    const Walk done = walk(row_tiles, true, heads, 1, blocks);
    const double all = std::accumulate(done.work.begin(), done.work.end(), 0.0);
    EXPECT_LE(static_cast<double>(std::ranges::max(done.work)), most * all / blocks)
        << row_tiles << " row tiles, " << heads << " heads";
  }
}

TEST(Sm90Schedule, TheLongestTilesComeFirst) {
  // 7 row tiles and 5 heads for 8 blocks: a round of pairs, then from the longest to the shortest.
  const Schedule schedule = make_schedule(7, 5, 1, 8, true);
  EXPECT_EQ(schedule.pair_rounds, 1);
  gridDim.x = 8;
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    Tiles tiles(schedule);
    const TileIndex first = tiles.index();
    tiles.advance();
    if (first.row_tile != 3) {  // the middle one has no partner
      EXPECT_EQ(tiles.index().row_tile, 6 - first.row_tile);
      EXPECT_EQ(tiles.index().head, first.head);
      EXPECT_GT(first.row_tile, tiles.index().row_tile);
      tiles.advance();
    }
    int last = 7;
    for (; !tiles.done(); tiles.advance()) {
      EXPECT_LE(tiles.index().row_tile, last);
      last = tiles.index().row_tile;
    }
  }
}

TEST(Sm90Schedule, NoMorePairsThanNeedBeAreTakenApart) {
  EXPECT_EQ(make_schedule(16, 64, 1, 132, true).pair_rounds, 2);  // 3 rounds and 116 of 132
  EXPECT_EQ(make_schedule(8, 64, 1, 132, true).pair_rounds, 1);   // one and 124, of 64 heads
  EXPECT_EQ(make_schedule(32, 16, 1, 132, true).pair_rounds, 0);  // as many, of 16
  EXPECT_EQ(make_schedule(8, 66, 1, 132, true).pair_rounds, 1);   // two, both full
  EXPECT_EQ(make_schedule(8, 10, 1, 132, true).pair_rounds, 0);
}

TEST(Sm90Schedule, TilesOfAHeadStandSideBySide) {
  const Schedule schedule = make_schedule(4, 3, 2, 24, false);
  gridDim.x = 24;
  for (blockIdx.x = 0; blockIdx.x < 24; ++blockIdx.x) {
    const TileIndex at = Tiles(schedule).index();
    EXPECT_EQ(at.head + 3 * at.batch, static_cast<int>(blockIdx.x / 4));
  }
}

}  // namespace
}  // namespace tessera::cuda::sm90
