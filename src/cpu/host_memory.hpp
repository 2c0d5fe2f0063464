// Is a call's memory the host's?
#pragma once

#include <string_view>

#include "core/status.hpp"
#include "core/tensors.hpp"

namespace tessera::cpu {

// OK, or which tensor is GPU memory. Costs nothing in a process that never loaded a driver.
core::Status check_on_host(const core::Addresses& at, const tessera_device& device);
// The same of one tensor; null is fine.
core::Status check_on_host(std::string_view name, const void* data);

}  // namespace tessera::cpu
