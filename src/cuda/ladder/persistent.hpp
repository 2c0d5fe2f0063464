// Rung 11, persistent: as many blocks as the GPU holds at once, each working through a list of tiles.
//
//   tiles, longest first    0  1  2  3 | 7  6  5  4 | 8  9 10 11 |
//   block                   0  1  2  3 | 0  1  2  3 | 0  1  2  3     <- every second round in reverse
//
// Under a causal mask the last row tile of a head sees the most keys. Dealt out longest first and back and
// forth, every block gets about the same amount of work, known before anything runs: no counter, no luck,
// same bits.
#pragma once

#include "cuda/ladder/production_rungs.hpp"
#include "cuda/sm80/kernel.hpp"

namespace tessera::cuda::ladder {

// Which tile a block is at: kept in shared memory, because the loop of a tile has no register for it.
struct Listed {
  int round, row_tile, head, batch;
};
struct ListedTile {
  const volatile Listed* at;
  __device__ int row_tile(const Params&) const { return at->row_tile; }
  __device__ int pack_index(const Params&) const { return at->head; }
  __device__ int batch(const Params&) const { return at->batch; }
  __device__ static int first_column(const Params&) { return 0; }
  // Opaque: else the number of rows is worked out once and kept, in a register that the loop of a tile needs.
  template <class T>
  __device__ static tile::BlockView<T> view(const Params& p, int batch, int pack_index) {
    tile::BlockView<T> v = tile::block_view<T>(p, batch, pack_index);
    v.rows = ptx::opaque(p.sizes.queries) * static_cast<int>(p.pack.divisor);
    return v;
  }
};

// Goes to the block's next tile; by one thread. False behind the last.
__device__ inline bool go_on(volatile Listed& at, const Params& p, int rows) {
  const int row_tiles = (p.sizes.queries + rows - 1) / rows, heads = p.sizes.batch * p.sizes.heads;
  const int blocks = static_cast<int>(gridDim.x), block = ptx::block_x(), round = at.round + 1;
  const int item = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
  const int rank = item / heads, head = item % heads;  // tiles of equal length are neighbours in the list
  at.round = round;
  at.row_tile = p.longest_first != 0 ? row_tiles - 1 - rank : rank;
  at.head = head % p.sizes.heads;
  at.batch = head / p.sizes.heads;
  return item < row_tiles * heads;
}

template <class T, int kDim>
__global__ void __launch_bounds__(registers_config(kDim).threads(), registers_config(kDim).min_blocks)
    persistent(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  __shared__ Listed at;
  constexpr sm80::Config C = registers_config(kDim);
  if (threadIdx.x == 0) at.round = -1;
  for (;;) {
    __syncthreads();  // everyone is done with the tile before
    if (__syncthreads_or(threadIdx.x == 0 && go_on(at, p, C.rows())) == 0) return;
    sm80::attend_tile<C, T, tile::PlainScores, sm80::Rows::of_16_bytes>(p, memory, ListedTile{&at});
  }
}

}  // namespace tessera::cuda::ladder
