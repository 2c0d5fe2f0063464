// The row of the table that takes every problem of 8-bit inputs.
#pragma once

#include "core/kernel.hpp"

namespace tessera::cuda::fp8_rows {

core::Kernel row();

}  // namespace tessera::cuda::fp8_rows
