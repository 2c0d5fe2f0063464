// Stands in for src/cuda/ptx/global_atomic.hpp.
#pragma once

#include "machine.hpp"

namespace tessera::cuda::ptx {

inline int fetch_add(int* at, int more) {
  testing_cuda::machine->perhaps_pause();
  const int before = *at;
  *at += more;
  return before;
}

}  // namespace tessera::cuda::ptx
