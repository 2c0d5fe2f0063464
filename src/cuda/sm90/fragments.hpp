// What a thread of a warpgroup holds of a tile; see ptx/wgmma.hpp for which elements.
#pragma once

#include "cuda/sm90/config.hpp"

namespace tessera::cuda::sm90 {

template <Config C>
using Scores = float[C.keys / 2];
template <Config C>
using Weights = unsigned[C.keys / 16][4];
template <Config C>
using Output = float[C.value_dim / 2];

}  // namespace tessera::cuda::sm90
