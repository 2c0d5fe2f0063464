// Swizzles, exhaustively: nothing collides within a row, and the access patterns of the kernels touch
// different banks. Shared memory has 32 banks of 4 bytes; an access of 16 bytes a lane is served eight lanes
// at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "cuda/tile/fragments.hpp"
#include "cuda/tile/swizzle.hpp"

namespace tessera::cuda::tile {
namespace {

constexpr int kRows = 64;       // more than any period of the maps
constexpr int kLineChunks = 8;  // 16-byte chunks in all 32 banks

// How many turns one phase of eight 16-byte accesses takes: 1 is free of conflicts. Lanes that ask for the
// same chunk share a turn.
int turns(const std::array<int, 8>& chunk_addresses) {
  std::array<std::set<int>, kLineChunks> asked;
  for (const int address : chunk_addresses) asked[address % kLineChunks].insert(address);
  std::size_t most = 0;
  for (const auto& each : asked) most = std::max(most, each.size());
  return static_cast<int>(most);
}

template <int kChunks>
int address_of(int row, int chunk) {
  return row * kChunks + swizzle_chunk<kChunks>(row, chunk);
}

template <int kChunks>
void expect_bijection() {
  for (int row = 0; row < kRows; ++row) {
    std::set<int> taken;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int to = swizzle_chunk<kChunks>(row, chunk);
      EXPECT_TRUE(to >= 0 && to < kChunks) << "row " << row << " chunk " << chunk << " leaves its row";
      EXPECT_TRUE(taken.insert(to).second) << "row " << row << " chunk " << chunk;
    }
  }
}

// One ldmatrix.x4 on the 16x16 tile at (row, chunk): four phases of eight lanes.
template <int kChunks, class Lane>
void expect_free_ldmatrix(Lane lane_address, const char* what) {
  for (int row = 0; row + 16 <= kRows; row += 16)
    for (int chunk = 0; chunk + 2 <= kChunks; chunk += 2)
      for (int phase = 0; phase < 4; ++phase) {
        std::array<int, 8> addresses{};
        for (int i = 0; i < 8; ++i) {
          const FragmentIndex at = lane_address(8 * phase + i);
          addresses[i] = address_of<kChunks>(row + at.row, chunk + at.column);
        }
        EXPECT_EQ(turns(addresses), 1) << what << " row " << row << " chunk " << chunk << " phase " << phase;
      }
}

// Lanes copy consecutive chunks, row after row.
template <int kChunks>
void expect_free_copies() {
  for (int first = 0; first + 8 <= kRows * kChunks; first += 8) {
    std::array<int, 8> addresses{};
    for (int i = 0; i < 8; ++i)
      addresses[i] = address_of<kChunks>((first + i) / kChunks, (first + i) % kChunks);
    EXPECT_EQ(turns(addresses), 1) << "copies from chunk " << first;
  }
}

// Scores and outputs as mma leaves them: lane l writes the word 2 * (l % 4) of row l / 4, 4 bytes each.
template <int kChunks>
void expect_free_fragment_stores() {
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    std::set<int> banks;
    for (int lane = 0; lane < 32; ++lane) {
      const FragmentIndex at = index_in_c(lane, 0);
      banks.insert((address_of<kChunks>(at.row, chunk) * 4 + at.column / 2) % 32);
    }
    EXPECT_EQ(banks.size(), 32u) << "chunk " << chunk;
  }
}

template <int kDim>
void expect_all() {
  SCOPED_TRACE(fmt::format("rows of {} elements", kDim));
  constexpr int kChunks = kDim / 8;
  expect_bijection<kChunks>();
  expect_free_ldmatrix<kChunks>(ldmatrix_a, "ldmatrix_a");
  expect_free_ldmatrix<kChunks>(ldmatrix_b, "ldmatrix_b");
  expect_free_ldmatrix<kChunks>(ldmatrix_b_transposed, "ldmatrix_b_transposed");
  expect_free_copies<kChunks>();
  expect_free_fragment_stores<kChunks>();
}

TEST(SwizzleChunk, IsABijectionFreeOfConflictsForEveryRowLength) {
  expect_all<32>();
  expect_all<64>();
  expect_all<96>();
  expect_all<128>();
  expect_all<160>();
  expect_all<192>();
  expect_all<224>();
  expect_all<256>();
}

TEST(SwizzleChunk, TheTestSeesConflictsWhereThereIsNoSwizzle) {
  std::array<int, 8> plain{};
  for (int i = 0; i < 8; ++i) plain[i] = i * 8;  // one chunk of eight rows of 64 elements
  EXPECT_EQ(turns(plain), 8);
  plain.fill(3);
  EXPECT_EQ(turns(plain), 1) << "one chunk for all is a broadcast";
}

TEST(SwizzleWord, IsABijectionWithinEveryGroupOf32) {
  for (int row = 0; row < kRows; ++row)
    for (int group = 0; group < 4; ++group) {
      std::set<int> taken;
      for (int word = 0; word < 32; ++word) taken.insert(swizzle_word(row, 32 * group + word));
      EXPECT_EQ(taken.size(), 32u);
      EXPECT_EQ(*taken.begin() / 32, group);
      EXPECT_EQ(*taken.rbegin() / 32, group);
    }
}

// Each lane its own row, all the same word: the pattern that meets in one bank without a swizzle.
TEST(SwizzleWord, OneWordOf32RowsTouchesEveryBank) {
  for (const int words : {32, 64, 96, 128})
    for (int first = 0; first < kRows; first += 32)
      for (int word = 0; word < words; ++word) {
        std::set<int> banks;
        for (int lane = 0; lane < 32; ++lane)
          banks.insert(((first + lane) * words + swizzle_word(first + lane, word)) % 32);
        EXPECT_EQ(banks.size(), 32u) << "rows of " << words << " words, word " << word;
      }
}

// The copy into the tile: 32 lanes write 32 neighbouring words of one row.
TEST(SwizzleWord, AlongARowItTouchesEveryBankToo) {
  for (int row = 0; row < kRows; ++row)
    for (int group = 0; group < 4; ++group) {
      std::set<int> banks;
      for (int lane = 0; lane < 32; ++lane) banks.insert(swizzle_word(row, 32 * group + lane) % 32);
      EXPECT_EQ(banks.size(), 32u);
    }
}

// Rungs 2 to 4 compute the place of piece 4 * w4 + w of row 4 * r4 + r in two halves, one of them a constant.
TEST(Swizzles, SplitIntoAPartOfFoursAndARest) {
  for (int row = 0; row < 32; ++row)
    for (int piece = 0; piece < 64; ++piece) {
      const int r4 = row / 4 * 4, r = row % 4, p4 = piece / 4 * 4, p = piece % 4;
      EXPECT_EQ(swizzle_word(r4, p4) + swizzle_word(r, p), swizzle_word(row, piece));
      EXPECT_EQ(swizzle_chunk<8>(r4, p4) + swizzle_chunk<8>(r, p), swizzle_chunk<8>(row, piece));
      EXPECT_EQ(swizzle_chunk<16>(r4, p4) + swizzle_chunk<16>(r, p), swizzle_chunk<16>(row, piece));
    }
}

// Most different words that one bank is asked for: the turns that a 4-byte access of a warp takes.
template <class WordOfLane>
std::size_t word_turns(WordOfLane word_of_lane) {
  std::array<std::set<int>, 32> asked;
  for (int lane = 0; lane < 32; ++lane) asked[word_of_lane(lane) % 32].insert(word_of_lane(lane));
  std::size_t most = 0;
  for (const auto& each : asked) most = std::max(most, each.size());
  return most;
}

// A warp of rung 2: eight query rows, four lanes a row, each with a key of its own, all at one word; then one
// value row, where each lane of a row has a word of its own.
template <class FragmentIndex>
void expect_free_quads(int words, FragmentIndex place) {
  for (int word = 0; word < words; ++word)
    for (int first = 0; first < 32; first += 8) {
      EXPECT_EQ(word_turns([&](int lane) { return place(first + lane / 4, word); }), 1u)
          << "query word " << word;
      EXPECT_EQ(word_turns([&](int lane) { return place(first + lane % 4, word); }), 1u)
          << "key word " << word;
      EXPECT_EQ(word_turns([&](int lane) { return place(first, word / 4 * 4 + lane % 4); }), 1u)
          << "value " << word;
    }
}

TEST(Quads, PaddedAndSwizzledRowsAreFreeOfConflictsAndPlainOnesAreNot) {
  for (const int words : {32, 64}) {
    expect_free_quads(words, [&](int row, int word) { return row * (words + 1) + word; });
    expect_free_quads(words, [&](int row, int word) { return row * words + swizzle_word(row, word); });
    EXPECT_EQ(word_turns([&](int lane) { return lane / 4 * words; }), 8u);
  }
}

// The same with 16 bytes a lane, eight lanes at a time.
template <int kChunks>
void expect_free_wide_quads() {
  for (int chunk = 0; chunk < kChunks; ++chunk)
    for (int first = 0; first < 32; first += 4) {
      std::array<int, 8> query{}, key{}, value{};
      for (int i = 0; i < 8; ++i) {
        query[i] = address_of<kChunks>(first + i / 4, chunk);
        key[i] = address_of<kChunks>(first + i % 4, chunk);
        value[i] = address_of<kChunks>(first, chunk / 4 * 4 + i % 4);
      }
      EXPECT_EQ(turns(query), 1) << chunk;
      EXPECT_EQ(turns(key), 1) << chunk;
      EXPECT_EQ(turns(value), 1) << chunk;
    }
}

TEST(Quads, WideLoadsAreFreeOfConflicts) {
  expect_free_wide_quads<8>();
  expect_free_wide_quads<16>();
}

// One address and flipped bits against the map itself, for every lane, step and row offset.
template <int kDim>
void expect_fragment_addresses() {
  constexpr unsigned kBase = 5 * 128;
  for (int lane = 0; lane < 32; ++lane) {
    for (const FragmentIndex at : {ldmatrix_a(lane), ldmatrix_b(lane), ldmatrix_b_transposed(lane)}) {
      const unsigned first = kBase + static_cast<unsigned>(chunk_offset<kDim>(at.row, at.column));
      for (int rows = 0; rows < 128; rows += 16) {
        for (int step = 0; step < kDim / 16; ++step) {
          const int expected = chunk_offset<kDim>(rows + at.row, 2 * step + at.column);
          ASSERT_EQ(fragment_address<kDim>(first, rows, step), kBase + static_cast<unsigned>(expected))
              << "dim " << kDim << ", lane " << lane << ", row " << rows << ", step " << step;
        }
      }
    }
  }
}

TEST(FragmentAddress, IsTheMapForEveryHeadDim) {
  expect_fragment_addresses<32>();
  expect_fragment_addresses<64>();
  expect_fragment_addresses<96>();
  expect_fragment_addresses<128>();
  expect_fragment_addresses<192>();
  expect_fragment_addresses<256>();
}

}  // namespace
}  // namespace tessera::cuda::tile
