// What the kernel receives. No host headers, as cuda/params.hpp.
#pragma once

#include "cuda/mixed.hpp"

namespace tessera::cuda::fp8_rows {

struct RowsParams {
  Params problem;
  Mixed mixed;
  int parts;  // of a row's value columns
};

// The same beside a tail: the last of the query's columns meet that, and those before them the key.
struct TailParams : RowsParams {
  Tail tail;
};

}  // namespace tessera::cuda::fp8_rows
