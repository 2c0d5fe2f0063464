// A block's shared memory: a ring of tiles, as TMA writes them (blocks of 64 columns, rows of 128 bytes,
// chunks of 16 bytes swizzled by the row's number), K of a tile before its V.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/serving/configs.hpp"
#include "cuda/serving/run.hpp"
#include "cuda/tile/ring.hpp"

namespace tessera::cuda::serving {

// Of what is merged at once (merge.hpp): factors of what was before and of this, and its sum; the fourth word
// is there because all are read at once.
struct alignas(16) MergeStep {
  float first, second, sum, unused;
};
inline constexpr int kMostAtOnce = 32;  // pieces of a chain, chains of a sequence: a lane each

// What each key of a slot's tile, and its value, are multiplied by, where that is not one number for a
// sequence.
template <Config C, bool kCoded = C.coded()>
struct TileScales {};
template <Config C>
struct TileScales<C, true> {
  alignas(16) float key[C.stages][C.keys], value[C.stages][C.keys];
};
// Tiles of f16 made of codes, K before V.
inline constexpr int kWideTiles = 2;
template <Config C, bool kSome = (C.wide_bytes() > 0)>
struct WideTiles {};
template <Config C>
struct WideTiles<C, true> {
  alignas(1024) char wide[kWideTiles][C.wide_bytes() / kWideTiles];
};
// Of latent attention there are no registers to keep what can be worked out from it.
template <Config C>
__device__ inline int thread() {
  return C.latent ? ptx::thread_x() : static_cast<int>(threadIdx.x);
}

template <Config C>
struct Shared : WideTiles<C> {
  alignas(1024) char ring[C.stages][C.slot_bytes()];
  // O of a sequence's pieces so far, if there are no registers for it, and scores (latent.hpp).
  float sum[(C.sum_bytes() + C.scores_bytes()) / 4];
  float2 state[C.warps()][16];  // row max and sum of each warp's keys
  MergeStep steps[C.warps()][C.merge_rows()][kMostAtOnce];
  unsigned suspects[2][C.warps()];
  tile::Barrier full[C.stages], empty[C.stages];
  tile::Barrier wide_full[kWideTiles], wide_empty[kWideTiles];
  // What is to be done, told by the producer.
  static constexpr int kTasks = 4;
  tile::Barrier task_there[kTasks], task_done[kTasks];
  Task task[kTasks];
  Line line;  // told with the first task
  bool last;  // who asks has come last
  TileScales<C> scales;

  __device__ const Task& wait_task(int n) const {
    task_there[n % kTasks].wait(static_cast<unsigned>(n / kTasks & 1));
    return task[n % kTasks];
  }
  // By a whole warp.
  __device__ void end_task(int n) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) task_done[n % kTasks].arrive();
  }
  // Task n, by a whole warp.
  __device__ void tell(int n, const Task& what) {
    task_done[n % kTasks].wait(static_cast<unsigned>(n / kTasks & 1) ^ 1u);
    if (threadIdx.x % 32 == 0) {
      task[n % kTasks] = what;
      task_there[n % kTasks].arrive();
    }
    __syncwarp();
  }

  __device__ tile::Ring<kWideTiles> wide_ring() { return {wide_full, wide_empty}; }
  // A tile's slot and the parity of its barriers' phase, counted through all of a block's tiles.
  __device__ unsigned key(unsigned n) const { return ptx::shared_address(ring[n % C.stages]); }
  __device__ unsigned value(unsigned n) const { return key(n) + (C.latent ? 0 : C.key_bytes()); }
  __device__ void wait_full(unsigned n) const { full[n % C.stages].wait(n / C.stages & 1); }
  __device__ void wait_empty(unsigned n) const { empty[n % C.stages].wait((n / C.stages & 1) ^ 1); }
  // By a whole warp, whose threads are done with the tile.
  __device__ void release(unsigned n) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) empty[n % C.stages].arrive();
  }
  // `copied`: by the threads of the producers, not by TMA.
  __device__ void start(bool copied) {
    for (int s = 0; s < C.stages; ++s) {
      full[s].init(copied ? 32 * kProducerWarps : 1);
      empty[s].init(C.warps() + C.wideners());
    }
    for (int n = 0; n < kTasks; ++n) {
      task_there[n].init(1);
      task_done[n].init(C.warps() + C.wideners() + (copied ? kProducerWarps - 1 : 0));
    }
    for (int n = 0; n < kWideTiles && C.wideners() > 0; ++n) {
      wide_full[n].init(C.wideners());
      wide_empty[n].init(C.warps());
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    ptx::barrier_init_fence();
#endif
  }
};

// Where chunk `chunk` of row `row` lies in a tile of K or V.
template <Config C>
__device__ inline unsigned chunk_at(int row, int chunk) {
  return static_cast<unsigned>(chunk / 8 * (C.keys * 128) + row * 128 + ((chunk % 8) ^ (row % 8)) * 16);
}
// The address that a lane gives ldmatrix for step k of 16 columns, from that for the first.
template <Config C>
__device__ inline unsigned step_at(unsigned first, int k) {
  return (first ^ static_cast<unsigned>(k % 4 * 32)) + static_cast<unsigned>(k / 4 * (C.keys * 128));
}

}  // namespace tessera::cuda::serving
