// What the decode kernels receive.
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda::decode {

struct DecodeParams {
  Params problem;
  int blocks;          // of the first kernel
  int row_tiles;       // of a K/V head
  int whole_chunks;    // rows of K and V are whole chunks of 16 bytes
  int changes_scores;  // they are not only scaled by a plain factor and hidden by position
  int most_pieces;     // of a sequence
  // The workspace: for every block first O of the chains so far, as its threads hold it; then, for the second
  // kernel, slots with O and softmax state of units: `region` of them for the sequence that another block
  // began, and as many for the one that another ends.
  float* totals;
  long long totals_floats;
  float* partials;
  int region;
  int slot_rows;  // packed rows of a slot
};

}  // namespace tessera::cuda::decode
