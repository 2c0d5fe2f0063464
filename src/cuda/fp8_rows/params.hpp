// What the kernel receives. No host headers, as cuda/params.hpp.
#pragma once

#include "cuda/coded.hpp"

namespace tessera::cuda::fp8_rows {

struct RowsParams {
  Params problem;
  Coded coded;
  int parts;  // of a row's value columns
};

}  // namespace tessera::cuda::fp8_rows
