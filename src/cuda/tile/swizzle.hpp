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

// Byte offset of a 16-byte chunk in a tile of rows of kDim 16-bit elements.
template <int kDim>
TESSERA_HOST_DEVICE int chunk_offset(int row, int chunk) {
  return (row * (kDim / 8) + swizzle_chunk<kDim / 8>(row, chunk)) * 16;
}

// The shared-memory address a lane gives ldmatrix, from that of its place in the first 16 columns of the
// tile's first rows. The swizzle is an exclusive or with the row, and steps of 16 columns only flip bits of
// it: one register does for all steps (tiles are 128-byte aligned). Row offsets are multiples of 16.
template <int kDim>
TESSERA_HOST_DEVICE unsigned fragment_address(unsigned first, int rows, int step) {
  constexpr int kGroup = kDim / 8 % 8 == 0 ? 4 : 2;  // steps after which the swizzle repeats
  return (first ^ static_cast<unsigned>(step % kGroup * 32)) +
         static_cast<unsigned>(step / kGroup * (kGroup * 32) + rows * (kDim * 2));
}

}  // namespace tessera::cuda::tile
