// Rung 8, registers: scores, softmax and P never leave registers.
//
//   S fragments (two neighbouring 16x8)  --exp2, round to 16 bits-->  A fragment of P V, same thread, same
//   place
//
// That the accumulator layout of one product is the operand layout of the next (tile/fragments.hpp, tested
// exhaustively) is what makes the whole softmax a matter of four threads per row: no shared memory, no
// barrier. The pieces live in sm80/mainloop.hpp and sm80/softmax.hpp; this rung is their plainest
// arrangement: two stages, 16 rows a warp.
#pragma once

#include "cuda/ladder/production_rungs.hpp"
#include "cuda/sm80/kernel.hpp"

namespace tessera::cuda::ladder {

template <class T, int kDim>
__global__ void __launch_bounds__(registers_config(kDim).threads(), registers_config(kDim).min_blocks)
    registers(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) char memory[];
  sm80::attend_tile<registers_config(kDim), T, tile::PlainScores, sm80::Rows::of_16_bytes>(p, memory,
                                                                                           sm80::GridTile{});
}

}  // namespace tessera::cuda::ladder
