// Stands in for src/cuda/sm90/mask.hpp: notes which key tiles were masked.
#pragma once

#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

template <Config C, class T, class Policy>
void mask_scores(Scores<C>&, const Params&, const TileIndex&, int, int tile) {
  testing_cuda::machine->perhaps_pause();
  testing_cuda::machine->masked().push_back(tile);
}

}  // namespace tessera::cuda::sm90
