// What a wgmma kernel receives: the problem, the tensors as TMA sees them, and the list of tiles.
#pragma once

#include "cuda/params.hpp"
#include "cuda/ptx/tma.hpp"
#include "cuda/sm90/schedule.hpp"

namespace tessera::cuda::sm90 {

struct Sm90Params {
  TensorMap query, key, value;
  Params problem;
  Schedule schedule;
  tile::Divider group;  // query heads that share K and V
};

// And where the last columns stand in strips: these of Q, K and V.
struct StripParams : Sm90Params {
  TensorMap strips[3];
};

}  // namespace tessera::cuda::sm90
