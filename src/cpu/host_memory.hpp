// Is a call's memory the host's?
#pragma once

#include "core/status.hpp"
#include "core/tensors.hpp"

namespace tessera::cpu {

// OK, or which tensor is GPU memory. Costs nothing in a process that never loaded a driver.
core::Status check_on_host(const core::Addresses& at, const tessera_device& device);

}  // namespace tessera::cpu
