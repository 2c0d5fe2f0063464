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

// Which tile a block is at: written to shared memory for the length of a tile, whose loop has no register for
// it.
struct ListPlace {
  const volatile int* kept;
  __device__ int row_tile(const Params&) const { return kept[0]; }
  __device__ int pack_index(const Params&) const { return kept[1]; }
  __device__ int batch(const Params&) const { return kept[2]; }
};

template <class T, int kDim>
__global__ void __launch_bounds__(registers_config(kDim).threads(), registers_config(kDim).min_blocks)
    persistent(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char shared[];
  __shared__ int kept[3];
  constexpr sm80::Config C = registers_config(kDim);
  const int row_tiles = (p.queries + C.rows() - 1) / C.rows(), heads = p.batch * p.heads;
  for (int round = 0;; ++round) {
    const int blocks = static_cast<int>(gridDim.x), block = ptx::block_x();
    const int item = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    if (round * blocks >= row_tiles * heads) break;
    __syncthreads();  // everyone is done with the tile before
    if (threadIdx.x == 0) {
      const int rank = item / heads, head = item % heads;  // tiles of equal length are neighbours in the list
      kept[0] = p.longest_first != 0 ? row_tiles - 1 - rank : rank;
      kept[1] = head % p.heads;
      kept[2] = head / p.heads;
    }
    __syncthreads();
    if (item < row_tiles * heads) sm80::attend_tile<C, T, false>(p, shared, ListPlace{kept});
  }
}

}  // namespace tessera::cuda::ladder
