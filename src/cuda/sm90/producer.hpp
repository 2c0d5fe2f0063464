// The producer: one thread that asks the copy engine for Q, K and V as soon as there is room for them.
#pragma once

#include "cuda/ptx/dependent_launch.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

template <Config C>
struct Producer {
  const Sm90Params& p;
  Shared<C>& shared;
  unsigned query_count = 0, key_count = 0, value_count = 0;  // asked for so far

  using Ring = RingPlace<C.stages>;

  __device__ void load_query(const Place& at) {
#pragma unroll
    for (int w = 0; w < C.consumers; ++w) {
      ptx::barrier_wait(ptx::shared_address(&shared.query_empty[w]), (query_count & 1) ^ 1);
      copy_tile(shared.query[w], C.blocks(), 64, &p.query, shared.query_full[w],
                at.row_tile * C.rows() + 64 * w, at.head, at.batch);
    }
    ++query_count;
  }
  __device__ void load_key(int tile, int head, int batch) {
    const unsigned slot = wait_for_room(shared.key_empty, key_count++);
    copy_tile(shared.key[slot], C.blocks(), C.keys, &p.key, shared.key_full[slot], tile * C.keys, head,
              batch);
  }
  __device__ void load_value(int tile, int head, int batch) {
    const unsigned slot = wait_for_room(shared.value_empty, value_count++);
    copy_tile(shared.value[slot], C.value_blocks(), C.keys, &p.value, shared.value_full[slot], tile * C.keys,
              head, batch);
  }
  // The slot of the n-th tile of a ring.
  __device__ static unsigned wait_for_room(unsigned long long (&empty)[C.stages], unsigned n) {
    ptx::barrier_wait(ptx::shared_address(&empty[Ring::slot(n)]), Ring::parity(n) ^ 1);
    return Ring::slot(n);
  }

  __device__ void run() {
    for (Tiles tiles(p.schedule); !tiles.done(); tiles.advance()) {
      const Place at = tiles.place();
      const KeyTiles range = key_tiles<C>(tile::band_of(p.problem, at.batch), p.problem, at);
      const int kv_head = p.group.divide(at.head), last = range.first + range.count - 1;
      ptx::await_kernels_before();
      load_key(last, kv_head, at.batch);  // before Q, for which there may be no room yet
      load_query(at);
      for (int t = last; t > range.first; --t) {
        load_key(t - 1, kv_head, at.batch);
        load_value(t, kv_head, at.batch);
      }
      load_value(range.first, kv_head, at.batch);
    }
  }
};

}  // namespace tessera::cuda::sm90
