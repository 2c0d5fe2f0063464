// What is asked of a GPU kernel beyond what every kernel must pass.
#pragma once

#include <string>

#include "cases/instance.hpp"

namespace tessera::cases {

// To be called when the instance's outputs hold a result that passed. Inputs on the GPU must be unharmed,
// several runs at once must give the same bits, and so must runs with a workspace, where the plan takes one,
// and a run whose other batch entries are all NaN. Empty, or the gate that failed.
std::string gpu_gates(Instance& instance, Mirror& mirror, const tessera_device& device);

}  // namespace tessera::cases
