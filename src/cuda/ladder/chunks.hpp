// What rungs 4 to 7 share: tiles travel in chunks of 16 bytes, eight elements, into two slots for K and V.
//
//   shared memory   | Q | K0 V0 | K1 V1 | what the rung adds
//
// Chunk c of row r lies at c ^ r (tile/swizzle.hpp), so that eight rows' chunks of one column, which is what
// ldmatrix and 16-byte loads ask for together, lie in different banks.
#pragma once

#include "cuda/ladder/block.hpp"
#include "cuda/ptx/async_copy.hpp"
#include "cuda/tile/fragments.hpp"
#include "cuda/tile/swizzle.hpp"

namespace tessera::cuda::ladder {

using tile::chunk_offset;

// The addresses that a lane gives ldmatrix, for 16 columns at a time. One number serves all: the next 16
// columns are two chunks further, and before the swizzle as after it that flips a bit of the address; 16 rows
// further the swizzle is the same. Tiles start at multiples of 128 bytes.
template <int kDim>
struct LaneAddress {
  unsigned at;

  __device__ explicit LaneAddress(tile::FragmentIndex lane) : at(chunk_offset<kDim>(lane.row, lane.column)) {}
  __device__ unsigned operator()(unsigned tile, int rows, int step) const {
    constexpr int kTurn = kDim / 8 % 8 == 0 ? 128 : 64;  // bytes within which the swizzle moves a chunk
    return ((tile + at) ^ (32 * step % kTurn)) + 32 * step / kTurn * kTurn + rows * kDim * 2;
  }
};

// Starts the copy of a tile. Rows past `rows` and elements past `dim` become zeros. Rows are 16-byte aligned.
template <int kDim, int kRows, int kThreads, class T>
__device__ inline void start_chunks(unsigned to, const T* from, long long stride, int rows, int dim) {
  constexpr int kChunks = kDim / 8, kAtOnce = kThreads / kChunks;  // rows that the threads cover at once
  static_assert(kAtOnce % 8 == 0 && kRows % kAtOnce == 0, "kAtOnce rows further the swizzle is the same");
  const unsigned thread = ptx::opaque(threadIdx.x);
  const auto row = static_cast<int>(thread / kChunks), chunk = static_cast<int>(thread % kChunks);
  const unsigned slot = to + chunk_offset<kDim>(row, chunk);
  const T* at = from + row * stride + chunk * 8;
#pragma unroll
  for (int r = 0; r < kRows; r += kAtOnce) {
    ptx::copy_async_16(slot + r * kDim * 2, at, row + r < rows && chunk * 8 < dim);
    at = ptx::opaque(at + kAtOnce * stride);  // else every multiple of the stride stays in registers
  }
}

// Where the tiles of a block lie, and how they get there. Offsets count bytes of shared memory.
template <class T, int kDim, int kThreads, class Block>
struct ChunkSlots {
  static constexpr int kQueryBytes = Block::kRows * kDim * 2, kTileBytes = Block::kKeys * kDim * 2;
  static constexpr int kEnd = kQueryBytes + 4 * kTileBytes;  // what the rung adds starts here

  __device__ static int key(int t) { return kQueryBytes + t % 2 * (2 * kTileBytes); }
  __device__ static int value(int t) { return key(t) + kTileBytes; }

  __device__ static void start_query(const Block& block) {
    start_chunks<kDim, Block::kRows, kThreads>(ptx::shared_address(shared_memory), block.query(),
                                               block.p.query.strides.row, block.rows(), block.p.sizes.dim);
  }
  __device__ static void start_tile(const Block& block, int t) {
    if (t < block.tiles()) {
      const unsigned base = ptx::shared_address(shared_memory);
      start_chunks<kDim, Block::kKeys, kThreads>(base + key(t), block.key(t), block.p.kv.key.strides.row,
                                                 block.keys(t), block.p.sizes.dim);
      start_chunks<kDim, Block::kKeys, kThreads>(base + value(t), block.value(t),
                                                 block.p.kv.value.strides.row, block.keys(t),
                                                 block.p.sizes.value_dim);
    }
    ptx::commit_copies();
  }
  // Tile t is complete and everybody is done with tile t - 1, whose slot is filled next.
  __device__ static void advance(const Block& block, int t) {
    ptx::wait_copies<0>();
    __syncthreads();
    start_tile(block, t + 1);
  }
};

}  // namespace tessera::cuda::ladder
