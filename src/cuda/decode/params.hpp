// What the decode kernels receive.
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda::decode {

struct DecodeParams {
  Params problem;
  int blocks;                   // of the first kernel
  int row_tiles;                // of a K/V head
  int whole_chunks;             // rows of K and V are whole chunks of 16 bytes
  int changes_scores;           // they are not only scaled by a plain factor and hidden by position
  int few_pieces, most_pieces;  // of a sequence: see cut()
  // What the first kernel leaves for the second: for every block, O and softmax state of the pieces that its
  // first sequence begins with (one slot), then of `slots` - 1 pieces of the sequence that it goes on with.
  float* partials;
  int slots;
  int slot_rows;  // packed rows of a slot
};

}  // namespace tessera::cuda::decode
