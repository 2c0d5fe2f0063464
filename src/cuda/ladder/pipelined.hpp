// Rung 9, pipelined: a ring of three stages instead of two.
//
//   tile i computes | copies of i+1 have had one tile's time | copies of i+2 are under way
//
// With two stages a copy must land within one tile's time; with three, within two. Whether that helps depends
// on how long a tile takes compared with the memory's latency, and on what the third stage's shared memory
// costs in blocks per SM: docs/ladder.md has the numbers. Rung 10 is this kernel launched with an L2 window
// over K and V.
#pragma once

#include "cuda/ladder/production_rungs.hpp"
#include "cuda/sm80/kernel.hpp"

namespace tessera::cuda::ladder {

template <class T, int kDim>
__global__ void __launch_bounds__(pipelined_config(kDim).threads(), pipelined_config(kDim).min_blocks)
    pipelined(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  sm80::attend_tile<pipelined_config(kDim), T, tile::PlainScores, sm80::Rows::of_16_bytes>(p, memory,
                                                                                           sm80::GridTile{});
}

}  // namespace tessera::cuda::ladder
