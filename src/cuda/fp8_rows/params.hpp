// What the kernel receives. No host headers, as cuda/params.hpp.
#pragma once

#include "cuda/coded.hpp"

namespace tessera::cuda::fp8_rows {

enum class QueryKind : int { codes, f16, bf16, f32 };  // codes: of the dtype that the keys have

struct RowsParams {
  Params problem;
  Coded coded;
  int parts;  // of a row's value columns
  QueryKind query_kind;
};

// The same beside a tail: the last of the query's columns meet that, and those before them the key.
struct TailParams : RowsParams {
  Tensor tail;  // as the key lies; of the query's type, which is no code
  int key_dim;
};

}  // namespace tessera::cuda::fp8_rows
