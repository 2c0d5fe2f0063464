// What the serving kernels receive.
#pragma once

#include "cuda/params.hpp"
#include "cuda/ptx/tensor_map.hpp"
#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::serving {

// Where entries begin (offsets: an entry ends where the next begins), or how long they are. Null: they are
// all alike.
struct Numbers {
  const char* data;
  long long stride_bytes;
  int wide;  // i64, else i32
};

// Of entries that are all alike: what run.hpp would find for each.
struct Alike {
  int first_tile, shift, pieces, row_tiles;
  tile::Divider by_pieces, by_units;  // units: pieces of an entry
  int units;
  int share, rest;  // of all units a block has `share`, and of the first `rest` blocks each one more
};

struct ServingParams {
  TensorMap key, value;  // where `box_shift` is set
  Params problem;
  Numbers query_offsets, key_offsets, key_lengths;
  Alike alike;
  int blocks;                 // of the first kernel
  int tile_rows, tile_shift;  // packed rows of a block: 1 << tile_shift
  int least_rows, most_rows;  // packed rows of the entries that these kernels take; others have the rest
  int few;                    // up to 16 of them
  int clears;                 // they write the rows that no entry owns, too
  // TMA copies boxes of 1 << box_shift rows, which never lie in two pages. 0: threads copy.
  int box_shift;
  int whole_chunks;  // rows of K and V are whole chunks of 16 bytes
  int query_pairs;   // of Q whole pairs of elements, at multiples of 4 bytes
  // Of a sequence of an entry with one row tile; where there are no query offsets: with as many as all have.
  int most_pieces;
  int coarse;     // see Cut
  int slots;      // of a block
  int slot_rows;  // packed rows of a slot
  // What the first kernel leaves for the second: for every block, O and softmax state of the pieces that its
  // first sequence begins with (one slot), then of `slots` - 1 pieces of the sequence that it goes on with.
  float* partials;
  int* notes;                       // for every block what run.hpp's Note says, where entries are not alike
  long long partials_at, notes_at;  // where in the workspace
};

// Of a slot: O of its rows, then row max and sum of each; whole chunks of 16 bytes.
TESSERA_HOST_DEVICE long long slot_floats(int rows, int value_dim) {
  return (static_cast<long long>(rows) * (value_dim + 2) + 3) / 4 * 4;
}

}  // namespace tessera::cuda::serving
