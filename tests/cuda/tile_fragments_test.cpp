// Fragment maps, exhaustively: every element has exactly one holder, scores become the next product's operand
// where they lie, and the addresses given to ldmatrix fetch exactly the fragments that mma expects.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

#include "cuda/tile/fragments.hpp"

namespace tessera::cuda::tile {
namespace {

constexpr int kLanes = 32;

bool operator==(FragmentIndex a, FragmentIndex b) { return a.row == b.row && a.column == b.column; }

std::string text(FragmentIndex place) { return fmt::format("({}, {})", place.row, place.column); }

// Every place inside rows x columns is taken once.
class Cover {
 public:
  Cover(int rows, int columns) : rows_(rows), columns_(columns) {}
  void take(FragmentIndex place) {
    EXPECT_TRUE(place.row >= 0 && place.row < rows_ && place.column >= 0 && place.column < columns_)
        << text(place);
    EXPECT_TRUE(taken_.insert({place.row, place.column}).second) << text(place) << " is held twice";
  }
  [[nodiscard]] bool complete() const { return static_cast<int>(taken_.size()) == rows_ * columns_; }

 private:
  int rows_, columns_;
  std::set<std::pair<int, int>> taken_;
};

TEST(Fragments, EveryElementOfAHasOneHolder) {
  Cover cover(16, 16);
  for (int lane = 0; lane < kLanes; ++lane)
    for (int r = 0; r < 4; ++r)
      for (int half = 0; half < 2; ++half) cover.take(index_in_a(lane, r, half));
  EXPECT_TRUE(cover.complete());
}

TEST(Fragments, EveryElementOfBHasOneHolder) {
  Cover cover(16, 8);
  for (int lane = 0; lane < kLanes; ++lane)
    for (int r = 0; r < 2; ++r)
      for (int half = 0; half < 2; ++half) cover.take(index_in_b(lane, r, half));
  EXPECT_TRUE(cover.complete());
}

TEST(Fragments, EveryElementOfCHasOneHolder) {
  Cover cover(16, 8);
  for (int lane = 0; lane < kLanes; ++lane)
    for (int element = 0; element < 4; ++element) cover.take(index_in_c(lane, element));
  EXPECT_TRUE(cover.complete());
}

// A's register r holds what C's elements 2 * (r % 2) + {0, 1} of tile r / 2 are.
TEST(Fragments, ScoresOfTwoTilesAreTheNextOperandWhereTheyLie) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int r = 0; r < 4; ++r)
      for (int half = 0; half < 2; ++half) {
        FragmentIndex score = index_in_c(lane, 2 * (r % 2) + half);
        score.column += 8 * (r / 2);
        EXPECT_TRUE(score == index_in_a(lane, r, half)) << "lane " << lane << " register " << r;
      }
}

// A row's scores lie in the four lanes of a group: a maximum over the row is two shuffles (lane ^ 1, ^ 2).
TEST(Fragments, ARowOfScoresStaysWithinFourNeighbouringLanes) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int element = 0; element < 4; ++element) {
      EXPECT_EQ(index_in_c(lane, element).row, index_in_c(lane ^ 1, element).row);
      EXPECT_EQ(index_in_c(lane, element).row, index_in_c(lane ^ 2, element).row);
    }
}

// What ldmatrix.x4 puts into (lane, register, half), as the place in shared memory it came from. Lanes
// 8m ... 8m + 7 give the rows of matrix m; lane l receives of it row l / 4, elements 2 * (l % 4) + {0, 1}, or
// with .trans column l / 4 of rows 2 * (l % 4) + {0, 1}.
template <class Address>
FragmentIndex fetched(Address address, bool transposed, int lane, int matrix, int half) {
  const int along = 2 * (lane % 4) + half;
  const int across = lane / 4;
  const FragmentIndex row = address(8 * matrix + (transposed ? along : across));
  return {row.row, 8 * row.column + (transposed ? across : along)};
}

TEST(Ldmatrix, FetchesTheAFragmentOfATileStoredByRows) {
  for (int lane = 0; lane < kLanes; ++lane)
    for (int r = 0; r < 4; ++r)
      for (int half = 0; half < 2; ++half)
        EXPECT_TRUE(fetched(ldmatrix_a, false, lane, r, half) == index_in_a(lane, r, half))
            << "lane " << lane << " register " << r;
}

TEST(Ldmatrix, FetchesTwoBFragmentsOfAMatrixStoredByColumns) {  // K: [key][dim], where n is the key
  for (int lane = 0; lane < kLanes; ++lane)
    for (int r = 0; r < 4; ++r)
      for (int half = 0; half < 2; ++half) {
        const FragmentIndex wanted = index_in_b(lane, r % 2, half);
        const FragmentIndex stored = {wanted.column + 8 * (r / 2), wanted.row};
        EXPECT_TRUE(fetched(ldmatrix_b, false, lane, r, half) == stored)
            << "lane " << lane << " register " << r;
      }
}

TEST(Ldmatrix, FetchesTwoBFragmentsTransposed) {  // V: [key][dim], where k is the key
  for (int lane = 0; lane < kLanes; ++lane)
    for (int r = 0; r < 4; ++r)
      for (int half = 0; half < 2; ++half) {
        FragmentIndex wanted = index_in_b(lane, r % 2, half);
        wanted.column += 8 * (r / 2);
        EXPECT_TRUE(fetched(ldmatrix_b_transposed, true, lane, r, half) == wanted)
            << "lane " << lane << " register " << r;
      }
}

// S = A B computed the way a warp does it, from fragments fetched by ldmatrix, equals the plain product.
TEST(Ldmatrix, AProductOfFetchedFragmentsIsTheProduct) {
  std::array<std::array<int, 16>, 16> a{}, keys{};  // keys as [n][k]
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j)
      a[i][j] = (i * 37 + j * 11) % 23 - 11, keys[i][j] = (i * 17 + j * 29) % 19 - 9;

  std::array<std::array<int, 16>, 16> product{};
  for (int tile = 0; tile < 2; ++tile) {
    std::array<std::array<int, 16>, 16> a_seen{};
    std::array<std::array<int, 8>, 16> b_seen{};
    for (int lane = 0; lane < kLanes; ++lane)
      for (int half = 0; half < 2; ++half) {
        for (int r = 0; r < 4; ++r) {
          const FragmentIndex from = fetched(ldmatrix_a, false, lane, r, half),
                              to = index_in_a(lane, r, half);
          a_seen[to.row][to.column] = a[from.row][from.column];
        }
        for (int r = 0; r < 2; ++r) {
          const FragmentIndex from = fetched(ldmatrix_b, false, lane, 2 * tile + r, half),
                              to = index_in_b(lane, r, half);
          b_seen[to.row][to.column] = keys[from.row][from.column];
        }
      }
    for (int lane = 0; lane < kLanes; ++lane)
      for (int element = 0; element < 4; ++element) {
        const FragmentIndex at = index_in_c(lane, element);
        for (int k = 0; k < 16; ++k)
          product[at.row][8 * tile + at.column] += a_seen[at.row][k] * b_seen[k][at.column];
      }
  }
  for (int i = 0; i < 16; ++i)
    for (int n = 0; n < 16; ++n) {
      int plain = 0;
      for (int k = 0; k < 16; ++k) plain += a[i][k] * keys[n][k];
      EXPECT_EQ(product[i][n], plain) << i << ", " << n;
    }
}

}  // namespace
}  // namespace tessera::cuda::tile
