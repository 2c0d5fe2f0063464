// Tiles of Q and K of 8 bits, and of V, which a pass has widened.
#pragma once

#include "cuda/sm90/producer.hpp"

namespace tessera::cuda::sm90 {

// `which`: 0, 1, 2 are Q, K, V.
template <Config C>
__device__ inline void copy_coded(char* to, const TensorMap* map, int which, tile::Barrier& full, int row,
                                  int head, int batch) {
  if (which == 0) {
    copy_tile<128>(to, C.blocks(), 64, map, full, row, head, batch);
  } else if (which == 1) {
    copy_tile<128>(to, C.blocks(), C.keys, map, full, row, head, batch);
  } else {
    copy_tile(to, C.value_blocks(), C.keys, map, full, row, head, batch);
  }
}

}  // namespace tessera::cuda::sm90
