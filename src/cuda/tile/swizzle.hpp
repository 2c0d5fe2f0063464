// Where a piece of row `row` of a shared-memory tile lies, so that the access patterns of the kernels touch
// 32 different banks. Every map is a bijection within a row; tests/cuda checks both exhaustively.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::tile {

// 4-byte words: word w of a row moves to w ^ row within its group of 32. For lanes that read the same word
// of different rows (rows a multiple of 32 words long would all meet in one bank).
TESSERA_HOST_DEVICE int swizzle_word(int row, int word) { return word ^ (row & 31); }

// 16-byte chunks, for ldmatrix and 16-byte copies, where eight lanes touch the same chunk of eight
// consecutive rows. Rows of a multiple of eight chunks (128 bytes) all start at bank 0: chunk c moves to
// c ^ row within its group of 8. Rows of 4, 12, 20 ... chunks start at bank 0 and 16 by turns: there it is
// c ^ (row / 2) within its group of 4.
template <int kChunks>
TESSERA_HOST_DEVICE int swizzle_chunk(int row, int chunk) {
  static_assert(kChunks % 4 == 0, "rows are padded to a multiple of 32 elements");
  return kChunks % 8 == 0 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
}

}  // namespace tessera::cuda::tile
