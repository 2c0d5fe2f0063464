// Keys and values of 8 bits beside a query of any type. No host headers, as params.hpp.
#pragma once

#include "cuda/coded.hpp"

namespace tessera::cuda {

enum class Codes : int { e4m3, e5m2, i8 };

enum class QueryKind : int { codes, f16, bf16, f32 };  // codes: of the type that the keys have

struct Mixed {
  Coded coded;
  QueryKind query;
};

// The keys' last columns, where they have a tensor of their own: of the query's type, which is no code.
struct Tail {
  Tensor keys;  // as the key lies
  int key_dim;  // columns of the key itself
};

}  // namespace tessera::cuda
