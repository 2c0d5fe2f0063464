// What the serving kernels receive.
#pragma once

#include "cuda/params.hpp"
#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::serving {

struct ServingParams {
  Params problem;
  int blocks;                 // of the first kernel
  int tile_rows;              // packed rows of a block
  int least_rows, most_rows;  // packed rows of the entries that these kernels take; others have the rest
  // What a dense batch does without, so that its kernels do not touch the parameters of the rest: those are
  // not in any cache when a kernel starts.
  int plain;                    // no offsets, pages, priors; the output is of the inputs' type
  int reads_lengths;            // of entries: from memory
  int clears;                   // they write the rows that no entry owns, too
  int whole_chunks;             // rows of K and V are whole chunks of 16 bytes
  int changes_scores;           // they are not only scaled by a plain factor and hidden by position
  int few_pieces, most_pieces;  // of a sequence; with offsets of an entry: see cut()
  // What the first kernel leaves for the second: for every block, O and softmax state of the pieces that its
  // first sequence begins with (one slot), then of `slots` - 1 pieces of the sequence that it goes on with.
  float* partials;
  float* sums;                     // O of a block's pieces so far (SumIn::workspace)
  long long partials_at, sums_at;  // where in the workspace
  int slots;
  int slot_rows;  // packed rows of a slot
};

// Of a slot: O of its rows, then row max and sum of each; whole chunks of 16 bytes.
TESSERA_HOST_DEVICE long long slot_floats(int rows, int value_dim) {
  return (static_cast<long long>(rows) * (value_dim + 2) + 3) / 4 * 4;
}

}  // namespace tessera::cuda::serving
