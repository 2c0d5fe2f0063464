// What a thread of a warpgroup holds of a tile; see tile/accumulator.hpp for which elements.
#pragma once

#include "cuda/sm90/config.hpp"
#include "cuda/tile/accumulator.hpp"

namespace tessera::cuda::sm90 {

// C: a Config or a SplitConfig.
template <auto C>
using Scores = tile::Accumulator<C.keys>;
template <auto C>
using Probs = tile::ProbsTile<C.keys>;
template <auto C>
using Output = tile::Accumulator<C.value_dim>;

}  // namespace tessera::cuda::sm90
