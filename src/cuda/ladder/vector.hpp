// Rung 4, vector: every load moves 16 bytes a lane instead of 4, from global memory and from shared memory.
//
//   before   [4B][4B][4B][4B]    4 instructions, 4 addresses
//   now      [      16 B     ]   1 instruction, 1 address
//
// The same quads and the same two slots as in rung 3; a piece is now a chunk of eight elements. The price is
// alignment: rows must start at multiples of 16 bytes, which is checked when the call is made.
#pragma once

#include "cuda/ladder/chunks.hpp"
#include "cuda/ladder/quads.hpp"

namespace tessera::cuda::ladder {

// at(): see SwizzledWords.
template <int kDim>
struct SwizzledChunks {
  using Piece = uint4;
  static constexpr int kPieces = kDim / 8, kTurn = 8;
  __device__ static int at(int r4, int r, int c4, int c) {
    return (4 * r4 + r) * kPieces + tile::swizzle_chunk<kPieces>(4 * r4, 4 * c4) +
           tile::swizzle_chunk<kPieces>(r, c);
  }
};

template <class T, int kDim>
__global__ void __launch_bounds__(Quads::kThreads, 4) vector(const __grid_constant__ Params p) {
  using Layout = SwizzledChunks<kDim>;
  using Slots = ChunkSlots<T, kDim, Quads::kThreads, QuadBlock<T>>;
  const auto tile_at = [](int offset) { return reinterpret_cast<const uint4*>(shared_memory + offset); };

  const QuadBlock<T> block(p);
  QuadRow<Layout> mine;
  Slots::start_query(block);
  Slots::start_tile(block, 0);
  for (int t = 0; t < block.tiles(); ++t) {
    Slots::advance(block, t);
    attend_tile<T, Layout>(block, t, tile_at(0), tile_at(Slots::key(t)), tile_at(Slots::value(t)), mine);
  }
  ptx::wait_copies<0>();
  write_row<T, Layout>(QuadBlock<T>(p), mine);
}

}  // namespace tessera::cuda::ladder
