// The rows of the table that take every problem of 8-bit inputs, and every one whose keys have a tail.
#pragma once

#include "core/kernel.hpp"

namespace tessera::cuda::fp8_rows {

core::Kernel row();
core::Kernel tail_row();

}  // namespace tessera::cuda::fp8_rows
