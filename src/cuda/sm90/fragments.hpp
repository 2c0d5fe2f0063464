// What a thread of a warpgroup holds of a tile; see tile/accumulator.hpp for which elements.
#pragma once

#include "cuda/sm90/config.hpp"
#include "cuda/tile/accumulator.hpp"

namespace tessera::cuda::sm90 {

// C: a Config or a SplitConfig.
template <auto C>
struct Fragments {  // NVRTC takes them as parameters of functions only by way of a class
  using Scores = tile::Accumulator<C.keys>;
  using Probs = tile::ProbsTile<C.keys>;
  using Output = tile::Accumulator<C.value_dim>;
};
template <auto C>
using Scores = typename Fragments<C>::Scores;
template <auto C>
using Probs = typename Fragments<C>::Probs;
template <auto C>
using Output = typename Fragments<C>::Output;

}  // namespace tessera::cuda::sm90
