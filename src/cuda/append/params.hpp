// What the kernel receives. No host headers, as cuda/params.hpp.
#pragma once

#include "cuda/mixed.hpp"

namespace tessera::cuda::append {

// Pair j of a row: tessera.h.
struct Rope {
  const float *cos, *sin;  // [positions, pairs]
  long long cos_stride, sin_stride;
  int positions;  // 0: nothing is turned
};

// Of each row in the tables of rope. Null: where its query stands.
struct Positions {
  const void* data;
  long long batch_stride, stride;
  int wide;  // i64, else i32
};

// A row of query or key in slots, each of which is a thread's at once: a chunk (16 bytes, or an element), or
// the two chunks whose elements are turned with each other. Slot s is chunk s; from `first` on come `turning`
// slots that are turned, number t of them chunk first + t * step and the one `other` chunks behind it (0: its
// pairs are neighbours in it); behind those, chunk s + skip.
struct Slots {
  tile::Divider all;  // of a row
  int first, turning;
  int step, other, skip;
};

struct AppendParams {
  Params problem;
  Tensor turned;                    // the query's copy, in the workspace
  Tensor new_key, new_value;        // as the query lies
  long long value_column;           // stride of value's columns; 1 unless it is transposed
  Codes codes;                      // of caches of 8 bits beside a wider query
  Scales key_scales, value_scales;  // of codes
  Rope rope;
  Positions positions;
  Slots slots;
  tile::Divider value_slots;  // of a row of values: chunks
  int query_heads;            // that are turned: all or none
  int key_slots, all_slots;   // of a row of all heads: of query and key; and of values
  Tensor tail;                // where the columns of a new key from tail_first on are stored
  int tail_first;
};

}  // namespace tessera::cuda::append
