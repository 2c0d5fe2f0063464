// The producer: one thread that tells the consumers which row tile is next and asks TMA for its
// Q, K and V as soon as there is room for them.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/strips.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

template <Config C>
struct Producer {
  const Sm90Params& p;
  Shared<C>& shared;
  int team;
  unsigned task_count = 0, key_count = 0, value_count = 0;  // row tiles made known, tiles asked for so far

  using Ring = tile::Ring<C.stages>;

  // A tile of Q, K or V (0, 1, 2), as they stand in StripParams.
  template <int kBlocks, int kRows>
  __device__ void copy(char* to, const TensorMap* map, int which, int columns, tile::Barrier& full, int row,
                       int head, int batch) const {
    if constexpr (C.strips) {
      copy_with_strips<kBlocks, kRows>(to, map, &static_cast<const StripParams&>(p).strips[which], columns,
                                       full, row, head, batch);
    } else {
      copy_tile(to, kBlocks, kRows, map, full, row, head, batch);
    }
  }

  __device__ void load_query(const TileIndex& at) {
#pragma unroll(C.strips ? 1 : C.consumers)
    for (int w = 0; w < C.consumers; ++w) {
      shared.query_empty[w].wait(task_count & 1);
      copy<C.blocks(), 64>(shared.query[w], &p.query, 0, p.problem.sizes.dim, shared.query_full[w],
                           at.row_tile * C.rows() + 64 * w, at.head, at.batch);
    }
  }
  // Where K and V are joint, V of the tile before comes into K's slot first, and waits for room for both;
  // begin() and end() stand in for the V before the first tile and for the K behind the last.
  __device__ void load_value(int tile, int head, int batch) {
    const Ring ring = C.joint() ? shared.key_ring() : shared.value_ring();
    const unsigned n = C.joint() ? key_count : value_count++, slot = Ring::slot(n);
    ring.wait_empty(n);
    copy<C.value_blocks(), C.keys>(shared.value[slot], &p.value, 2, p.problem.sizes.value_dim,
                                   ring.full[slot], tile * C.keys, head, batch);
  }
  __device__ void load_key(int tile, int head, int batch) {
    const unsigned slot = Ring::slot(key_count);
    if (!C.joint()) shared.key_ring().wait_empty(key_count);
    ++key_count;
    copy<C.blocks(), C.keys>(shared.key[slot], &p.key, 1, p.problem.sizes.dim, shared.key_full[slot],
                             tile * C.keys, head, batch);
  }
  __device__ void begin() const {
    if (C.joint()) shared.key_full[0].arrive();
  }
  __device__ void end() const {
    if (C.joint()) shared.key_full[Ring::slot(key_count)].arrive();
  }

  // Whoever was told of this slot before is done with it: the Q of two tasks ago has been released since.
  __device__ void make_known(const Task& task) {
    const unsigned slot = task_count++ % kTasks;
    shared.task[slot] = task;
    shared.task_there[slot].arrive();
  }

  __device__ void run() {
    begin();
    for (Tiles tiles(p.schedule, team, C.teams); !tiles.done(); tiles.advance()) {
      const TileIndex at = tiles.index();
      const tile::Sequence sequence{p.problem, at.batch};
      const KeyTiles range = key_tiles<C>(sequence.band(), sequence.queries(), at.row_tile);
      const int kv_head = p.group.divide(at.head), last = range.first + range.count - 1;
      ptx::wait_for_dependencies();
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
