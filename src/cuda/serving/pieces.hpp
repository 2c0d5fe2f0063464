// How keys are cut into pieces, and which block takes which: arithmetic alone, the same on the host.
//
//   entry 0                       entry 1
//   | sequence 0  | sequence 1  | | 0     | 1     |    a sequence: one K/V head, one tile of packed rows
//   | p p p p p p | p p p p p p | | p     | p     |    its pieces: 2^shift key tiles each
//   |---------|---------|---------|---------|-----     blocks: equal stretches of this line
//
// Where an entry is cut depends on its own keys and on static sizes alone. Pieces are merged in their order:
// those of a chain, which are 2^chain_shift neighbours, and then the chains. So which block takes what, and
// so the rest of the batch, cannot change a bit.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::serving {

inline constexpr int kTileKeys = 64;
inline constexpr int kMostPieces = 256;       // of an entry: about one for every block of a large GPU
inline constexpr int kMostLargePieces = 128;  // of one with more than 16 packed rows, whose ends take longer
// A piece has two tiles at least, and four where there would be more than a quarter of those: its end takes
// about as long as a tile.
inline constexpr int kLeastShift = 1;
// A chain is what a block can merge without the others, and what one warp can merge of others' at once. What
// 64 rows leave behind is large, so their chains are short enough for most blocks to have whole ones.
inline constexpr int kChainShift = 5, kLargeChainShift = 3;

TESSERA_HOST_DEVICE int ceil_divide(int n, int by) { return (n + by - 1) / by; }

struct Cut {
  int shift;   // a piece has 2^shift key tiles; the last may have fewer
  int pieces;  // of a sequence, at least one: an empty one has rows to write all the same

  TESSERA_HOST_DEVICE int tiles() const { return 1 << shift; }
  // On the line, where entries differ: its tiles, and as much as one for its start and end; in units of
  // 2^coarse, so that all lines fit 31 bits.
  TESSERA_HOST_DEVICE int cost(int coarse) const { return ((tiles() + 1) >> coarse) + (coarse > 0 ? 1 : 0); }
};

// Of an entry with so many sequences, what each may have, of a number for all of them.
TESSERA_HOST_DEVICE int share_of_pieces(int all, int sequences) {
  return sequences < all ? all / sequences : 1;
}

// `most`: a share of kMostPieces. The smallest pieces, twice as large as long as there are too many of them.
TESSERA_HOST_DEVICE Cut cut(int tiles, int most) {
  Cut c = {kLeastShift, (tiles + (1 << kLeastShift) - 1) >> kLeastShift};
  while (c.pieces > (c.shift == kLeastShift ? (most + 3) / 4 : most)) {
    ++c.shift;
    c.pieces = (c.pieces + 1) / 2;
  }
  if (c.pieces == 0) c.pieces = 1;
  return c;
}

// The line and the blocks that share it: of its points a block has `share`, and of the first `rest` blocks
// each one more. A piece belongs to the block that its first point belongs to.
struct Line {
  int share, rest;

  TESSERA_HOST_DEVICE int first_of(int block) const { return block * share + (block < rest ? block : rest); }
  TESSERA_HOST_DEVICE int block_of(int at) const {
    const int in_rest = rest * (share + 1);
    return at < in_rest ? at / (share + 1) : rest + (at - in_rest) / share;
  }
};
TESSERA_HOST_DEVICE Line make_line(int length, int blocks) {
  const int share = length / blocks;
  return {share, length - share * blocks};
}

// The first of a row of pieces, `cost` apart from `start` on, that begins at `at` or later.
TESSERA_HOST_DEVICE int first_from(int at, int start, int cost) {
  if (at <= start) return 0;
  return cost == 1 ? at - start : (at - start + cost - 1) / cost;
}

}  // namespace tessera::cuda::serving
