// What the kernels receive. No host headers, as cuda/params.hpp.
#pragma once

#include "cuda/coded.hpp"

namespace tessera::cuda::sm89 {

struct CodedParams {
  Params problem;
  Coded coded;
};

}  // namespace tessera::cuda::sm89
