// What the decode kernels receive.
#pragma once

#include "cuda/params.hpp"
#include "cuda/tile/host_device.hpp"

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
  int staged;     // slots that a block of the second kernel has in shared memory at once
};

inline constexpr int kMergeThreads = 128;  // of the second kernel, one for every two columns

// Of a slot: O of its rows, then row max and sum of each; whole chunks of 16 bytes.
TESSERA_HOST_DEVICE long long slot_floats(int rows, int value_dim) {
  return (static_cast<long long>(rows) * (value_dim + 2) + 3) / 4 * 4;
}

}  // namespace tessera::cuda::decode
