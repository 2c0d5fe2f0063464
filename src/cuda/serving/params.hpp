// What the serving kernels receive.
#pragma once

#include "cuda/mixed.hpp"
#include "cuda/params.hpp"
#include "cuda/ptx/tensor_map.hpp"
#include "cuda/serving/pieces.hpp"
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
  TensorMap key, value;  // where `box_shift` is set; of keys with a tail, which hold their values, that
  Params problem;
  Numbers query_offsets, key_offsets, key_lengths;
  Alike alike;
  int blocks;
  int tile_rows, tile_shift;  // packed rows of a block: 1 << tile_shift
  int least_rows, most_rows;  // packed rows of the entries that these kernels take; others have the rest
  int few;                    // the variant for the fewest
  int clears;                 // they write the rows that no entry owns, too
  // Whether there are entries with more rows than the first kernel takes, told by that one to the
  // next one, which has nothing to do else. Null: each looks for itself.
  int* others;
  // TMA copies boxes of 1 << box_shift rows, which never lie in two pages. 0: threads copy.
  int box_shift;
  int whole_chunks;  // rows of K and V are whole chunks of 16 bytes
  int query_pairs;   // of Q whole pairs of elements, at multiples of 4 bytes
  // Of a sequence of an entry with one row tile; where there are no query offsets: with as many as all have.
  int most_pieces;
  int coarse;  // see Cut
  // Over the batch, a row tile of every entry in each: blocks that read the same keys do so at the same time,
  // where one that had all row tiles would read them from memory again. 1: row tiles of an entry are
  // neighbours.
  int passes;
  int chain_shift;
  int slots, chain_slots;  // of a block
  int slot_rows;           // packed rows of a slot
  // Of latent attention. tail_block: which of a tile's blocks of columns it is; -1: there is none.
  Tail tail;
  int tail_block;
  int merges_apart;  // a second kernel ends what several blocks have parts of: merge_rows.hpp
  // What blocks leave for whoever merges: for every block O and softmax state of the pieces that a chain
  // begins with (one slot), and of `slots` - 1 pieces of a chain that another began.
  float* partials;
  // And behind `partials`, from slot `chains` on, of whole chains of sequences that have several: for every
  // block `chain_slots` of a sequence that another began, and as many of one that it begins.
  int chains;
  // How many pieces or chains are there (merge.hpp): of the chain, and of the sequence, that a block begins
  // and does not end.
  unsigned long long* counters;
  long long partials_at, counters_at, others_at;  // where in the workspace
};

// Of keys and values of 8 bits.
struct CodedParams : ServingParams {
  Mixed mixed;
  // Whether scales differ from key to key: by block of rows, or by page. Else they are one number for a
  // sequence; of values, maybe of each column.
  int key_by_key, value_by_key;
  int query_quads;  // four elements of Q can be read at once
};

// Of a counter: nothing is there. No memory holds it, or what follows it, by chance.
inline constexpr unsigned long long kNone = 0x9d3bc5a47e16f280ull;

// Of a slot: O of its rows, then row max and sum of each; whole chunks of 16 bytes.
TESSERA_HOST_DEVICE long long slot_floats(int rows, int value_dim) {
  return (static_cast<long long>(rows) * (value_dim + 2) + 3) / 4 * 4;
}

}  // namespace tessera::cuda::serving
