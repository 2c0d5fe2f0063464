// The producer: one thread that tells the consumers which row tile is next and asks the copy engine for its
// Q, K and V as soon as there is room for them.
#pragma once

#include "cuda/ptx/dependent_launch.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

template <Config C>
struct Producer {
  const Sm90Params& p;
  Shared<C>& shared;
  unsigned task_count = 0, key_count = 0, value_count = 0;  // row tiles made known, tiles asked for so far

  using Ring = RingPlace<C.stages>;

  __device__ void load_query(const Place& at) {
#pragma unroll
    for (int w = 0; w < C.consumers; ++w) {
      ptx::barrier_wait(ptx::shared_address(&shared.query_empty[w]), task_count & 1);
      copy_tile(shared.query[w], C.blocks(), 64, &p.query, shared.query_full[w],
                at.row_tile * C.rows() + 64 * w, at.head, at.batch);
    }
  }
  // Where K and V are joint, V of the tile before comes into K's slot first; begin() and end() stand in for
  // the V before the first tile and for the K behind the last.
  __device__ void load_value(int tile, int head, int batch) {
    auto& full = C.joint() ? shared.key_full : shared.value_full;
    const unsigned slot = C.joint() ? wait_for_room(shared.key_empty, key_count)
                                    : wait_for_room(shared.value_empty, value_count++);
    copy_tile(shared.value[slot], C.value_blocks(), C.keys, &p.value, full[slot], tile * C.keys, head, batch);
  }
  __device__ void load_key(int tile, int head, int batch) {
    const unsigned slot = C.joint() ? Ring::slot(key_count) : wait_for_room(shared.key_empty, key_count);
    ++key_count;
    copy_tile(shared.key[slot], C.blocks(), C.keys, &p.key, shared.key_full[slot], tile * C.keys, head,
              batch);
  }
  __device__ void begin() const {
    if (C.joint()) ptx::barrier_arrive(ptx::shared_address(&shared.key_full[0]));
  }
  __device__ void end() const {
    if (C.joint()) ptx::barrier_arrive(ptx::shared_address(&shared.key_full[Ring::slot(key_count)]));
  }
  // The slot of the n-th tile of a ring.
  __device__ static unsigned wait_for_room(unsigned long long (&empty)[C.stages], unsigned n) {
    ptx::barrier_wait(ptx::shared_address(&empty[Ring::slot(n)]), Ring::parity(n) ^ 1);
    return Ring::slot(n);
  }

  // Whoever was told of this place before is done with it: the Q of two tasks ago has been released since.
  __device__ void make_known(const Task& task) {
    const unsigned place = task_count++ % kTasks;
    shared.task[place] = task;
    ptx::barrier_arrive(ptx::shared_address(&shared.task_there[place]));
  }

  __device__ void run() {
    begin();
    for (Tiles tiles(p.schedule); !tiles.done(); tiles.advance()) {
      const Place at = tiles.place();
      const tile::Sequence sequence{p.problem, at.batch};
      const KeyTiles range = key_tiles<C>(sequence.band(), sequence.queries(), at.row_tile);
      const int kv_head = p.group.divide(at.head), last = range.first + range.count - 1;
      ptx::await_kernels_before();
      load_key(last, kv_head, at.batch);  // before Q, for which there may be no room yet
      make_known({at, range});
      load_query(at);
#pragma unroll 1  // its few registers are needed for other things
      for (int t = last; t > range.first; --t) {
        if (C.joint()) load_value(t, kv_head, at.batch);
        load_key(t - 1, kv_head, at.batch);
        if (!C.joint()) load_value(t, kv_head, at.batch);
      }
      load_value(range.first, kv_head, at.batch);
    }
    end();
    make_known({{-1, 0, 0}, {0, 0}});
  }
};

}  // namespace tessera::cuda::sm90
