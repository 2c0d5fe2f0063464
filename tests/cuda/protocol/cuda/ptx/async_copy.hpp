// Stands in for src/cuda/ptx/async_copy.hpp: see machine.hpp.
#pragma once

#include "machine.hpp"

namespace tessera::cuda::ptx {

inline unsigned shared_address(const void* pointer) { return testing_cuda::machine->address(pointer); }

}  // namespace tessera::cuda::ptx
