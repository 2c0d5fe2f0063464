// Which key tiles a block of sm80 visits where a mask tensor was looked at beforehand, on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

// Device code, compiled for the host.
#include <cuda_fp16.h>
#include <vector_functions.h>
using std::max;
using std::min;
inline float __shfl_xor_sync(unsigned, float x, int) { return x; }
inline bool __all_sync(unsigned, bool x) { return x; }
#include "cuda/sm80/mask_tiles.hpp"

namespace tessera::cuda::sm80 {
namespace {

using tile::MaskState;

// A mask of 3 heads, 5 rows of granules each, 7 granules wide.
constexpr int kHeads = 3, kRows = 5, kTiles = 7;
constexpr Config kNarrow{.dim = 64, .value_dim = 64, .keys = 32},
    kWide{.dim = 64, .value_dim = 64, .keys = 64};

struct Mask {
  std::vector<unsigned char> states;
  Params p{};

  explicit Mask(unsigned seed) {
    std::mt19937 random(seed);
    const MaskState some[] = {MaskState::hidden, MaskState::hidden, MaskState::open, MaskState::mixed};
    for (int i = 0; i < kHeads * kRows * kTiles; ++i)
      states.push_back(static_cast<unsigned char>(some[random() % std::size(some)]));
    p.mask_tiles = {states.data(), nullptr, kTiles, 0, kRows, 1};
  }
  unsigned char state(int head, int row, int tile) const {
    return states[static_cast<std::size_t>((head * kRows + row) * kTiles + tile)];
  }
};

MaskRows rows_of(const Mask& mask, int head, int first_query, int last_query) {
  tile::BlockView<float> view{};
  view.first_head = head;
  return {mask.p, view, first_query, last_query};
}

TEST(MaskRows, TogetherTheyAreHiddenOrOpenOnlyWhereAllAre) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const Mask mask(seed);
    for (int head = 0; head < kHeads; ++head)
      for (int row = 0; row + 1 < kRows; ++row)
        for (int tile = 0; tile < kTiles; ++tile) {
          const MaskState both = rows_of(mask, head, 64 * row + 63, 64 * row + 64).at(64 * tile + 63);
          const unsigned char a = mask.state(head, row, tile), b = mask.state(head, row + 1, tile);
          const auto all = [&](MaskState s) { return a == static_cast<unsigned char>(s) && b == a; };
          EXPECT_EQ(both == MaskState::hidden, all(MaskState::hidden));
          EXPECT_EQ(both == MaskState::open, all(MaskState::open));
        }
  }
}

template <Config C>
void visit_all(unsigned seed, int first_key, int length) {
  const Mask mask(seed);
  const MaskRows rows = rows_of(mask, 1, 70, 130);  // granules 1 and 2
  std::vector<int> visited, expected;
  TileList<C, true> list;
  list.start(rows, first_key, length);
  for (; list[0] * C.tile_keys() < length; list.advance(rows, first_key, length)) visited.push_back(list[0]);
  for (int t = 0; t * C.tile_keys() < length; ++t) {
    const int granule = (first_key + t * C.tile_keys()) / 64;
    if (mask.state(1, 1, granule) != 0 || mask.state(1, 2, granule) != 0) expected.push_back(t);
  }
  EXPECT_EQ(visited, expected) << "seed " << seed << ", first key " << first_key << ", length " << length;
}

TEST(TileList, VisitsWhatSomeRowSeesInOrder) {
  for (unsigned seed = 1; seed <= 200; ++seed)
    for (const int first_key : {0, 64, 128})
      for (const int length : {1, 31, 64, 65, 200, 64 * kTiles - 128}) {
        visit_all<kNarrow>(seed, first_key, length);
        visit_all<kWide>(seed, first_key, length);
      }
}

}  // namespace
}  // namespace tessera::cuda::sm80
