// The list of tiles that the wgmma kernel's blocks share, walked on the host as the blocks do: every tile is
// computed once, and by whom is even where later rows see more keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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

Walk walk(int row_tiles, bool paired, int heads, int batch, unsigned sms) {
  Choice choice{};
  choice.paired = paired;
  choice.row_tiles = row_tiles;
  choice.units = paired ? (row_tiles + 1) / 2 : row_tiles;
  choice.total = choice.units * heads * batch;
  const Schedule schedule = make_schedule(choice, heads);
  Walk walk;
  gridDim.x = std::min(sms, static_cast<unsigned>(schedule.total));
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    walk.work.push_back(0);
    for (Tiles tiles(schedule); !tiles.done(); tiles.advance()) {
      const Place at = tiles.place();
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
    for (const bool paired : {false, true})
      for (const int heads : {1, 3, 8})
        for (const unsigned sms : {1u, 5u, 132u}) {
          const Walk done = walk(row_tiles, paired, heads, 2, sms);
          EXPECT_EQ(done.visits.size(), static_cast<std::size_t>(row_tiles * heads * 2));
          for (const auto& [tile, times] : done.visits) EXPECT_EQ(times, 1);
        }
}

TEST(Sm90Schedule, PairsAreTheSameWork) {
  // 16 row tiles are 8 pairs of 17 tiles of keys.
  const Walk even = walk(16, true, 4, 2, 16);
  for (const std::int64_t work : even.work) EXPECT_EQ(work, 4 * 17);
  // 7 row tiles are 3 pairs of 8 and the middle one alone.
  const Walk odd = walk(7, true, 1, 1, 132);
  EXPECT_EQ(odd.work, (std::vector<std::int64_t>{8, 8, 8, 4}));
}

TEST(Sm90Schedule, UnitsOfAHeadStandSideBySide) {
  Choice choice{};
  choice.row_tiles = choice.units = 4;
  choice.total = 4 * 3 * 2;
  const Schedule schedule = make_schedule(choice, 3);
  gridDim.x = 24;
  for (blockIdx.x = 0; blockIdx.x < 24; ++blockIdx.x) {
    const Place at = Tiles(schedule).place();
    EXPECT_EQ(at.head + 3 * at.batch, static_cast<int>(blockIdx.x / 4));
  }
}

}  // namespace
}  // namespace tessera::cuda::sm90
