// How keys are cut into pieces, and which block takes which: arithmetic alone, the same on the host.
//
//   entry 0                       entry 1
//   | sequence 0  | sequence 1  | | 0     | 1     |    a sequence: one K/V head, one tile of packed rows
//   | p p p p p p | p p p p p p | | p     | p     |    its pieces: 2^shift key tiles each, four to a chain
//   |---------|---------|---------|---------|-----     blocks: equal stretches of this line
//
// Pieces are merged in their order within a chain, and chains in theirs. Where an entry is cut depends on its
// own keys and on static sizes alone: which block takes what, and so the rest of the batch, cannot change a
// bit. What blocks take whole, their unit, is a chain, or a piece where chains would leave blocks without
// work.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::decode {

inline constexpr int kTileKeys = 64;
inline constexpr int kLeastShift = 2;    // a piece has 2^2 tiles at least
inline constexpr int kMostPieces = 256;  // of an entry: about one for every block of a large GPU
inline constexpr int kChain = 4;         // pieces

TESSERA_HOST_DEVICE int ceil_divide(int n, int by) { return (n + by - 1) / by; }

struct Cut {
  int shift;   // a piece has 2^shift key tiles; the last may have fewer
  int pieces;  // of a sequence, at least one: an empty one has rows to write all the same

  TESSERA_HOST_DEVICE int tiles() const { return 1 << shift; }
  TESSERA_HOST_DEVICE int units(bool chains) const { return chains ? ceil_divide(pieces, kChain) : pieces; }
  // Of a unit on the line: its tiles, and as much as one for its start and end.
  TESSERA_HOST_DEVICE int cost(bool chains) const {
    return (chains ? (pieces < kChain ? pieces : kChain) * tiles() : tiles()) + 1;
  }
};

// Of an entry with so many sequences, what each may have.
TESSERA_HOST_DEVICE int most_pieces_of(int sequences) {
  return sequences < kMostPieces ? kMostPieces / sequences : 1;
}

// The smallest pieces, twice as large as long as there are too many of them.
TESSERA_HOST_DEVICE Cut cut(int tiles, int most_pieces) {
  Cut c = {kLeastShift, (tiles + (1 << kLeastShift) - 1) >> kLeastShift};
  while (c.pieces > most_pieces) {
    ++c.shift;
    c.pieces = (c.pieces + 1) / 2;
  }
  if (c.pieces == 0) c.pieces = 1;
  return c;
}

// Of numbers that are not negative: most fit 32 bits, whose division is several times as fast.
TESSERA_HOST_DEVICE long long divide(long long n, long long by) {
  if (((n | by) >> 32) == 0) return static_cast<unsigned>(n) / static_cast<unsigned>(by);
  return n / by;
}

// The line and the blocks that share it. A unit belongs to the block that its first point belongs to.
struct Line {
  long long length;
  int blocks;
  bool chains;  // are the units

  TESSERA_HOST_DEVICE int block_of(long long at) const {
    return static_cast<int>(divide(at * blocks, length));
  }
  TESSERA_HOST_DEVICE long long first_of(int block) const {
    return divide(static_cast<long long>(block) * length + blocks - 1, blocks);
  }
};

// What is known of a batch, for both kinds of units: the line's length, and the longest unit.
struct Lengths {
  long long all[2], longest[2];  // pieces, chains
};

// Chains make less work for whoever merges. Pieces are better where the longest block would take so much
// less; `alike`: all units have the same length.
TESSERA_HOST_DEVICE Line line_of(const Lengths& lengths, int blocks, bool alike) {
  const auto longest_block = [&](long long all, long long longest) {
    const long long share = divide(all + blocks - 1, blocks);
    return alike ? divide(share + longest - 1, longest) * longest : share + longest;
  };
  const bool chains = 10 * longest_block(lengths.all[1], lengths.longest[1]) <=
                      11 * longest_block(lengths.all[0], lengths.longest[0]);
  return {chains ? lengths.all[1] : lengths.all[0], blocks, chains};
}

// The first of a row of units, `cost` apart from `start` on, that begins at `at` or later.
TESSERA_HOST_DEVICE long long first_from(long long at, long long start, int cost) {
  return at <= start ? 0 : divide(at - start + cost - 1, cost);
}

}  // namespace tessera::cuda::decode
