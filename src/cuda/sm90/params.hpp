// What a wgmma kernel receives: the problem, the tensors as TMA sees them, and the list of tiles.
#pragma once

#include "cuda/mixed.hpp"
#include "cuda/params.hpp"
#include "cuda/ptx/tma.hpp"
#include "cuda/sm90/entry_list.hpp"
#include "cuda/sm90/schedule.hpp"

namespace tessera::cuda::sm90 {

struct Sm90Params {
  TensorMap query, key, value;
  Params problem;
  Schedule schedule;
  tile::Divider group;  // query heads that share K and V
};

// And where the last columns stand in strips: these of Q, K and V.
struct StripParams : Sm90Params {
  TensorMap strips[3];
};

// With a mask tensor.
struct Sm90MaskParams : Sm90Params {
  TensorMap mask;     // additive; rows of 128 bytes
  int slot_bytes;     // of what a key tile's mask takes in shared memory
  int slot_bits;      // there are 1 << slot_bits slots: 1, 2 or 4
  int box_keys;       // additive: keys in 128 bytes; boolean: 0
  int moves[3];       // additive: 1, or 0 where it is the same for every row, head, batch entry
  long long copy_at;  // where in the workspace the copy is that TMA reads; 0: the tensor itself
  int* dealt;         // how many row tiles were dealt out, then to which block each (dealt.hpp); or null
};

// Of a ragged or paged batch. K and V come in boxes that each lie in one page.
struct EntriesParams : StripParams {
  EntryList list;
  int box_rows;
  int boxes;        // of a key tile, one below the other
  int query_batch;  // 1: the rows of batch entries lie apart; 0: one behind the other
  int key_batch;    // the same of keys that are not in pages
  int has_strips;
  int outer;  // pages that there are, or batch entries, or 1: as the maps of K and V have it
};

// And where K and V are of 8 bits.
struct WidenedParams : EntriesParams {
  Mixed mixed;
  cuda::Codes codes;
};

}  // namespace tessera::cuda::sm90
