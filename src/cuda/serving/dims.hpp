// Which head dims the serving kernels take. On the host.
#pragma once

#include <iterator>

#include "core/kernel.hpp"
#include "cuda/serving/configs.hpp"

namespace tessera::cuda::serving {

inline constexpr HeadDims kLatentDims = kHeadDims[std::size(kHeadDims) - 1],
                          kMostDims = kHeadDims[std::size(kHeadDims) - 2];
static_assert(is_latent(kLatentDims.dim) && !is_latent(kMostDims.dim));

// Every row of V is the first elements of the same row of K.
bool values_in_keys(const core::Problem& problem);

// OK, or what of keys with a tail is accepted; `columns_together`: of the key, before which no tail can
// begin.
core::Status takes_tail(const core::Problem& problem, int columns_together);

// OK, or which are accepted: beyond the usual ones, those whose values lie in their keys.
core::Status takes_dims(const core::Problem& problem);

}  // namespace tessera::cuda::serving
