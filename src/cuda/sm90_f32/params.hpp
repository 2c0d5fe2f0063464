// What a kernel receives: the problem and the list of tiles.
#pragma once

#include "cuda/params.hpp"
#include "cuda/sm90/schedule.hpp"

namespace tessera::cuda::sm90_f32 {

struct F32Params {
  Params problem;
  sm90::Schedule schedule;  // its heads are packs of heads that share K and V
  int aligned;              // every row of every tensor starts at a multiple of 16 bytes and is one long
};

}  // namespace tessera::cuda::sm90_f32
