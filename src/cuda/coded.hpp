// What 8-bit query, key and value add to a problem: scales, values whose keys are contiguous, and an output
// of another type. No host headers, as params.hpp.
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda {

// Of a tensor as it is stored: element [outer, head, row, d] is its code times
// data[outer * strides.outer + head * strides.head + (row >> shift) * strides.block + d * strides.channel].
struct Scales {
  const float* data;  // null: 1
  long long outer, head, block, channel;
  int shift;  // of a row to its block

  TESSERA_HOST_DEVICE long long at(int of_outer, int of_head, int row) const {
    return of_outer * outer + of_head * head + (row >> shift) * block;
  }
  TESSERA_HOST_DEVICE bool by_block() const { return block != 0; }
};

enum class OutputKind : int { f16, bf16, f32 };

struct Coded {
  Scales query, key, value;
  Scales values_left;      // value's, or what is left of them where they went into V beforehand
  long long value_column;  // stride of value's columns; 1 unless it is transposed
  OutputKind output;
};

}  // namespace tessera::cuda
