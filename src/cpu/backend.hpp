// The CPU backend: one kernel per instruction set compiled in, best first.
#pragma once

#include "core/backend.hpp"

namespace tessera::cpu {

const core::Backend& backend();

}  // namespace tessera::cpu
