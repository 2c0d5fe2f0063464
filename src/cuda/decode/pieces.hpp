// How keys are cut into pieces, and which block takes which: arithmetic alone, the same on the host.
//
//   entry 0                       entry 1
//   | sequence 0  | sequence 1  | | 0     | 1     |    a sequence: one K/V head, one tile of packed rows
//   | p p p p p p | p p p p p p | | p     | p     |    its pieces: 2^shift key tiles each
//   |---------|---------|---------|---------|-----     blocks: equal stretches of this line
//
// Where an entry is cut depends on its own keys and on static sizes alone, and pieces are merged in their
// order: which block takes what, and so the rest of the batch, cannot change a bit.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::decode {

inline constexpr int kTileKeys = 64;
inline constexpr int kLeastShift = 1;  // a piece has 2 tiles at least,
inline constexpr int kFewPieces = 64;  // and 4 where an entry would have more than these: merging takes time
inline constexpr int kMostPieces = 256;  // of an entry: about one for every block of a large GPU

TESSERA_HOST_DEVICE int ceil_divide(int n, int by) { return (n + by - 1) / by; }

struct Cut {
  int shift;   // a piece has 2^shift key tiles; the last may have fewer
  int pieces;  // of a sequence, at least one: an empty one has rows to write all the same

  TESSERA_HOST_DEVICE int tiles() const { return 1 << shift; }
  // On the line: its tiles, and as much as one for its start and end.
  TESSERA_HOST_DEVICE int cost() const { return tiles() + 1; }
};

// Of an entry with so many sequences, what each may have, of a number for all of them.
TESSERA_HOST_DEVICE int share_of_pieces(int all, int sequences) {
  return sequences < all ? all / sequences : 1;
}

// `few`, `most`: shares of kFewPieces and kMostPieces. The smallest pieces, twice as large as long as there
// are too many of them.
TESSERA_HOST_DEVICE Cut cut(int tiles, int few, int most) {
  Cut c = {kLeastShift, (tiles + (1 << kLeastShift) - 1) >> kLeastShift};
  while (c.pieces > (c.shift == kLeastShift ? few : most)) {
    ++c.shift;
    c.pieces = (c.pieces + 1) / 2;
  }
  if (c.pieces == 0) c.pieces = 1;
  return c;
}

// The line and the blocks that share it. A piece belongs to the block that its first point belongs to.
struct Line {
  long long length;
  int blocks;

  TESSERA_HOST_DEVICE int block_of(long long at) const {
    return static_cast<int>(divide(at * blocks, length));
  }
  TESSERA_HOST_DEVICE long long first_of(int block) const {
    return divide(static_cast<long long>(block) * length + blocks - 1, blocks);
  }
  // Of numbers that are not negative: most fit 32 bits, whose division is several times as fast.
  TESSERA_HOST_DEVICE static long long divide(long long n, long long by) {
    if (((n | by) >> 32) == 0) return static_cast<unsigned>(n) / static_cast<unsigned>(by);
    return n / by;
  }
};

// The first of a row of pieces, `cost` apart from `start` on, that begins at `at` or later.
TESSERA_HOST_DEVICE long long first_from(long long at, long long start, int cost) {
  return at <= start ? 0 : Line::divide(at - start + cost - 1, cost);
}

}  // namespace tessera::cuda::decode
