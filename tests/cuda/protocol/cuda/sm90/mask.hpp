// Stands in for src/cuda/sm90/mask.hpp: notes which key tiles were masked, and reads a mask tensor's part
// from its slot.
#pragma once

#include "cuda/sm90/mask_walk.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

template <Config C>
void hide_by_position(Scores<C>&, const Params&, const TileIndex&, int, int tile) {
  testing_cuda::machine->perhaps_pause();
  testing_cuda::machine->look_at_scores(tile * C.keys);
  testing_cuda::machine->masked().push_back(tile);
}

template <int kGroups>
void hide_all(float (&)[kGroups][4]) {}

template <Config C>
struct MaskSlot {
  const Sm90MaskParams& p;
  const char* slot;
  int warpgroup;

  void apply(Scores<C>&, bool) const {
    testing_cuda::machine->perhaps_pause();
    testing_cuda::machine->applied().push_back(
        testing_cuda::machine->piece_at(testing_cuda::machine->address(slot), p.slot_bytes));
    testing_cuda::machine->perhaps_pause();
  }
};

}  // namespace tessera::cuda::sm90
