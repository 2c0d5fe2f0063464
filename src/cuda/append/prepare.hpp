// New keys and values, and RoPE, on a GPU: see core/append.hpp. Part of every build.
#pragma once

#include <memory>

#include "core/append.hpp"

namespace tessera::cuda::append {

core::Status prepare(const core::Problem& problem, const core::Device& device,
                     std::shared_ptr<const core::Prepared> attend,
                     std::shared_ptr<const core::Prepared>* out);

}  // namespace tessera::cuda::append
