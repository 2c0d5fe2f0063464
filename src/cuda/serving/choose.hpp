// The serving kernels' row of the table: batches whose entries differ in rows, keys and where they lie.
#pragma once

#include "core/kernel.hpp"

namespace tessera::cuda::serving {

core::Kernel production_row();

}  // namespace tessera::cuda::serving
