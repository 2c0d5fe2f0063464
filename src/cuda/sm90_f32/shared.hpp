// A block's shared memory: the parts of tiles as the tensor cores read them (blocks of 64 columns, rows of
// 128 bytes, swizzled), then the barriers and what the producer tells the consumers.
#pragma once

#include "cuda/sm90/shared.hpp"
#include "cuda/sm90_f32/config.hpp"
#include "cuda/sm90_f32/params.hpp"
#include "cuda/tile/parts.hpp"

namespace tessera::cuda::sm90_f32 {

using sm90::KeyTiles;
using sm90::kTasks;
using sm90::Task;
using sm90::TileIndex;

template <Config C>
struct Shared {
  alignas(1024) char query[C.consumers][tile::kParts][C.query_part()];
  alignas(1024) char key[C.stages][tile::kParts][C.key_part()];
  alignas(1024) char value[C.stages][tile::kParts][C.value_part()];
  float4 shelf[C.shelved > 0 ? 8 : 1][C.shelved > 0 ? 128 : 1];  // of every thread of the consumer, if any
  // Full: the producer has stored all of it; of Q, which other threads read too, each thread says so, of K
  // and V a lane of each warp. Empty: all threads of its warpgroup are done with it; of K and V, a lane of
  // each consumer warp says so.
  tile::Barrier query_full[C.consumers], query_empty[C.consumers];
  tile::Barrier key_full[C.stages], key_empty[C.stages];
  tile::Barrier value_full[C.stages], value_empty[C.stages];
  tile::Barrier task_there[kTasks];
  Task task[kTasks];
  int lost[kTasks];  // some number of the task's Q, K or V is not the sum of its parts: see tile/parts.hpp

  __device__ tile::Ring<C.stages> key_ring() { return {key_full, key_empty}; }
  __device__ tile::Ring<C.stages> value_ring() { return {value_full, value_empty}; }
};

template <Config C>
__device__ inline void start_barriers(Shared<C>& shared) {
  constexpr int kProducerWarps = 4;
  for (int w = 0; w < C.consumers; ++w) {
    shared.query_full[w].init(32 * kProducerWarps);
    shared.query_empty[w].init(128);
  }
  for (int s = 0; s < C.stages; ++s) {
    shared.key_full[s].init(kProducerWarps);
    shared.key_empty[s].init(4 * C.consumers);
    shared.value_full[s].init(kProducerWarps);
    shared.value_empty[s].init(4 * C.consumers);
  }
  for (int t = 0; t < kTasks; ++t) shared.task_there[t].init(1);
  ptx::barrier_init_fence();
}

// Named barriers; 0 is __syncthreads.
enum NamedBarrier : int { kProducerThreads = 1 };

}  // namespace tessera::cuda::sm90_f32
