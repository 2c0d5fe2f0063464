// What the kernel receives. No host headers, as cuda/params.hpp.
#pragma once

#include "cuda/mixed.hpp"

namespace tessera::cuda::fp8_rows {

struct RowsParams {
  Params problem;
  Mixed mixed;
  int parts;  // of a row's value columns
};

}  // namespace tessera::cuda::fp8_rows
