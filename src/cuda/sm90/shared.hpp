// A block's shared memory: tiles as the copy engine writes and the tensor cores read them (blocks of 64
// columns, rows of 128 bytes, swizzled), then the barriers and what the producer tells the consumers.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/barrier.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/sm90/config.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

// A row tile to be computed; row tile -1: there are no more.
struct Task {
  Place at;
  KeyTiles keys;
};
// At most three at a time are in use: the newest is made known while one is at work and the output of the one
// before that is still to be written.
inline constexpr int kTasks = 4;

template <Config C>
struct Shared {
  alignas(1024) char query[C.consumers][C.query_bytes()];
  alignas(1024) char key[C.stages][C.key_bytes()];
  alignas(1024) char value[C.stages][C.value_bytes()];
  // full: the bytes have landed. empty: every reader's warps are done with them; for Q, its threads are, and
  // with the task before it.
  unsigned long long query_full[C.consumers], query_empty[C.consumers];
  unsigned long long key_full[C.stages], key_empty[C.stages];      // where they are joint, of K and V
  unsigned long long value_full[C.stages], value_empty[C.stages];  // then unused
  unsigned long long task_there[kTasks];
  Task task[kTasks];
  int suspect[4 * C.consumers];  // a warp wrote something that is not finite: see tile/careful.hpp
};

// Asks for a tile, one box of every 64 columns; `full` counts its bytes.
__device__ inline void copy_tile(char* to, int blocks, int rows, const TensorMap* map,
                                 unsigned long long& full, int row, int head, int batch) {
  const unsigned barrier = ptx::shared_address(&full);
  ptx::barrier_expect(barrier, blocks * rows * 128);
  for (int b = 0; b < blocks; ++b)
    ptx::copy_box_in(ptx::shared_address(to + b * rows * 128), map, barrier, 64 * b, row, head, batch);
}

// Where the n-th tile of a ring lies, and the parity that its barrier shows when it is there.
template <int kSlots>
struct RingPlace {
  __device__ static unsigned slot(unsigned n) { return n % kSlots; }
  __device__ static unsigned parity(unsigned n) { return n / kSlots & 1; }
};

template <Config C>
__device__ inline void start_barriers(Shared<C>& shared) {
  using ptx::barrier_init, ptx::shared_address;
  for (int w = 0; w < C.consumers; ++w) {
    barrier_init(shared_address(&shared.query_full[w]), 1);
    barrier_init(shared_address(&shared.query_empty[w]), 128);
  }
  for (int s = 0; s < C.stages; ++s) {
    barrier_init(shared_address(&shared.key_full[s]), C.joint() ? 2 : 1);
    barrier_init(shared_address(&shared.key_empty[s]), 4 * C.consumers);
    barrier_init(shared_address(&shared.value_full[s]), 1);
    barrier_init(shared_address(&shared.value_empty[s]), 4 * C.consumers);
  }
  for (int t = 0; t < kTasks; ++t) barrier_init(shared_address(&shared.task_there[t]), 1);
  ptx::barrier_init_fence();
}

// Named barriers; 0 is __syncthreads.
enum NamedBarrier : int { kTurnOf = 1 };  // + warpgroup

}  // namespace tessera::cuda::sm90
