// tessera_quantise on a GPU: the launches that compute it.
#pragma once

#include <tessera/tessera.h>

#include "core/status.hpp"

namespace tessera::codes {
struct Problem;
}

namespace tessera::cuda::quantise {

// `device` passed core::check_device. Looks whose memory it is, and puts the work on the stream.
core::Status run(const codes::Problem& problem, const tessera_device& device);

}  // namespace tessera::cuda::quantise
