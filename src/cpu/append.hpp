// New keys and values, and RoPE, on a CPU: see core/append.hpp.
#pragma once

#include <memory>

#include "core/append.hpp"

namespace tessera::cpu {

std::shared_ptr<const core::Prepared> make_append(const core::Problem& problem, const tessera_device& device,
                                                  std::shared_ptr<const core::Prepared> attend);

}  // namespace tessera::cpu
