// A block's shared memory: tiles as TMA writes and the tensor cores read them (blocks of 64
// columns, rows of 128 bytes, swizzled), then the barriers and what the producer tells the consumers.
#pragma once

#include "cuda/ptx/tma.hpp"
#include "cuda/sm90/config.hpp"
#include "cuda/sm90/entry_task.hpp"
#include "cuda/sm90/mask_walk.hpp"
#include "cuda/sm90/walk.hpp"
#include "cuda/tile/ring.hpp"

namespace tessera::cuda::sm90 {

// At most three at a time are in use: the newest is made known while one is at work and the output of the one
// before that is still to be written.
inline constexpr int kTasks = 4;

// K and V have a ring each; with C.overlap, K is released as soon as its scores are there, and V later.
// Without it the two are joint: V of a key tile comes and goes together with K of the next, in slots of the
// same number, and `key` stands for both. A slot of it is filled by two copies and released once, when both
// have been read. V of a row tile's last key tile shares a slot with K of the next row tile's first; before
// the first K of all there is no V, and behind the last V no K: the producer arrives in their place.
// Codes of K and V as TMA writes them, before they are widened: blocks of 128 columns. A slot comes with the
// rows of V's that some row of Q sees; slot -1 behind the last.
struct Staged {
  int low, high;
};
template <Config C, bool kWidens = C.widens()>
struct Staging {};
template <Config C>
struct Staging<C, true> {
  alignas(1024) char key[C.staged][C.code_blocks() * C.keys * 128];
  alignas(1024) char value[C.staged][C.value_code_blocks() * C.keys * 128];
  alignas(1024) tile::Barrier key_full[C.staged];
  tile::Barrier key_empty[C.staged];
  tile::Barrier value_full[C.staged], value_empty[C.staged];
  Staged key_rows[C.staged], value_rows[C.staged];

  __device__ tile::Ring<C.staged> key_ring() { return {key_full, key_empty}; }
  __device__ tile::Ring<C.staged> value_ring() { return {value_full, value_empty}; }
  __device__ void start() {
    for (int s = 0; s < C.staged; ++s) {
      key_full[s].init(1);
      key_empty[s].init(4);
      value_full[s].init(1);
      value_empty[s].init(4);
    }
  }
};

template <Config C>
struct Shared : Staging<C> {
  alignas(1024) char query[C.consumers][C.query_bytes()];
  alignas(1024) char key[C.stages][C.key_bytes()];
  alignas(1024) char value[C.stages][C.value_bytes()];
  // Full: its bytes have landed. Empty: all threads of its warpgroup are done with it, and with the task
  // before it.
  tile::Barrier query_full[C.consumers], query_empty[C.consumers];
  tile::Barrier key_full[C.stages], key_empty[C.stages];
  tile::Barrier value_full[C.stages], value_empty[C.stages];  // unused where they are joint
  tile::Barrier task_there[kTasks];
  TaskOf<C> task[kTasks];
  int suspect[4 * C.consumers];  // a warp wrote something that is not finite: see tile/careful.hpp

  // Where there is a mask tensor: its ring, of which slots stand behind all this; of the key tile in a slot
  // what the consumers have to know (mask_walk.hpp); and of a task's key tiles, counted from 0, those that
  // each of them sees.
  tile::Barrier mask_full[kMostMaskSlots], mask_empty[kMostMaskSlots];
  int note[C.stages];
  KeyTiles part[kTasks][C.consumers];

  EntryPart<C.entries, C.stages> entry;

  __device__ Staging<C>& staging() { return *this; }
  __device__ char* mask_slot(int n, int bytes) { return reinterpret_cast<char*>(this + 1) + n * bytes; }
  __device__ WalkStates<C>& walk_states() {
    return *reinterpret_cast<WalkStates<C>*>(mask_slot(1, C.mask_bytes));
  }
  __device__ tile::Ring<C.stages> key_ring() { return {key_full, key_empty}; }
  __device__ tile::Ring<C.stages> value_ring() { return {value_full, value_empty}; }
};

// Asks for a tile, one box of every 64 columns (of 8 bits: 128); `full` counts its bytes.
template <int kColumns = 64>
__device__ inline void copy_tile(char* to, int blocks, int rows, const TensorMap* map, tile::Barrier& full,
                                 int row, int head, int batch) {
  full.expect(blocks * rows * 128);
  for (int b = 0; b < blocks; ++b)
    ptx::tma_load(ptx::shared_address(to + b * rows * 128), map, full.address(), kColumns * b, row, head,
                  batch);
}

template <Config C>
__device__ inline void start_barriers(Shared<C>& shared) {
  for (int w = 0; w < C.consumers; ++w) {
    shared.query_full[w].init(1);
    shared.query_empty[w].init(128);
  }
  for (int s = 0; s < C.stages; ++s) {
    constexpr int kWriters = C.widens() ? 4 : 1;
    shared.key_full[s].init(C.joint() ? 2 * kWriters : kWriters);
    shared.key_empty[s].init(4 * C.consumers);
    shared.value_full[s].init(kWriters);
    shared.value_empty[s].init(4 * C.consumers);
  }
  for (int t = 0; t < kTasks; ++t) shared.task_there[t].init(1);
  if constexpr (C.mask_bytes > 0) {
    for (int s = 0; s < kMostMaskSlots; ++s) {
      shared.mask_full[s].init(1);
      shared.mask_empty[s].init(128 * C.consumers);
    }
  }
  if constexpr (C.entries) shared.entry.start();
  if constexpr (C.widens()) shared.staging().start();
  ptx::barrier_init_fence();
}

// Named barriers; 0 is __syncthreads.
enum NamedBarrier : int { kTurnOf = 1, kQueryOf = 8 };  // + warpgroup

}  // namespace tessera::cuda::sm90
