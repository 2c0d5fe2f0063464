// The producer: one thread that tells the consumers which row tile is next and asks TMA for its
// Q, K and V as soon as there is room for them.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm90/dealt.hpp"
#include "cuda/sm90/mask_walk.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/strips.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

// The same where Q and K are of 8 bits. In sm90_fp8/loads.hpp.
template <Config C>
__device__ void copy_coded(char* to, const TensorMap* map, int which, tile::Barrier& full, int row, int head,
                           int batch);

template <Config C, bool kRotates = false>
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
    } else if constexpr (C.coded()) {
      copy_coded<C>(to, map, which, full, row, head, batch);
    } else {
      copy_tile(to, kBlocks, kRows, map, full, row, head, batch);
    }
  }

  __device__ void load_query(const TileIndex& at) {
#pragma unroll(C.strips || C.mask_bytes > 0 ? 1 : C.consumers)
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
  __device__ unsigned task_slot() const { return task_count % kTasks; }
  __device__ void make_known(const Task& task) {
    const unsigned slot = task_slot();
    ++task_count;
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
      const int rotation = kRotates ? rotation_of<C>(sequence.band(), at.row_tile, range) : 0;
      ptx::wait_for_dependencies();
      // Before Q, for which there may be no room yet.
      load_key(kRotates ? rotated(range, last, rotation) : last, kv_head, at.batch);
      make_known({at, range, rotation, sequence.band().offset});
      load_query(at);
      // Its few registers are needed for other things. (With a function in the place of these conditions the
      // loop is unrolled all the same.)
#pragma unroll 1
      for (int t = last; t > range.first; --t) {
        if (C.joint()) load_value(kRotates ? rotated(range, t, rotation) : t, kv_head, at.batch);
        load_key(kRotates ? rotated(range, t - 1, rotation) : t - 1, kv_head, at.batch);
        if (!C.joint()) load_value(kRotates ? rotated(range, t, rotation) : t, kv_head, at.batch);
      }
      load_value(kRotates ? rotated(range, range.first, rotation) : range.first, kv_head, at.batch);
    }
    end();
    make_known({{-1, 0, 0}, {0, 0}});
  }
};

// The same where a mask tensor says which key tiles there are. A whole warp asks it; one thread asks TMA.
template <Config C>
struct MaskProducer : Producer<C> {
  using Base = Producer<C>;
  using Base::p;
  using Base::shared;
  unsigned mask_count = 0;

  __device__ const Sm90MaskParams& more() const { return static_cast<const Sm90MaskParams&>(p); }
  __device__ static bool leads() { return threadIdx.x % 32 == 0; }

  __device__ void load_key(int note, int head, int batch) {
    if (!leads()) return;
    const unsigned slot = Base::Ring::slot(Base::key_count);
    if (!C.joint()) shared.key_ring().wait_empty(Base::key_count);
    shared.note[slot] = note;  // before the arrival that load_key makes
    Base::load_key(note >> kNoteTile, head, batch);
  }
  __device__ void load_mask(const TileIndex& at, int note) {
    if (!leads() || (note & kNoteApplied) == 0) return;
    const unsigned n = mask_count & ((1u << more().slot_bits) - 1);
    shared.mask_empty[n].wait((mask_count >> more().slot_bits & 1) ^ 1);
    ++mask_count;
    tile::Barrier& full = shared.mask_full[n];
    const unsigned to = ptx::shared_address(shared.mask_slot(n, more().slot_bytes));
    const int tile = note >> kNoteTile;
    if (p.problem.visibility.mask_kind == MaskTensorKind::boolean) {
      load_bits(at, note, to, full);
    } else {
      full.expect(more().slot_bytes);
#pragma unroll 1
      for (int key = 0; key < C.keys; key += more().box_keys)
        ptx::tma_load(to + key / more().box_keys * C.rows() * 128, &more().mask, full.address(),
                      tile * C.keys + key, at.row_tile * C.rows() * more().moves[0],
                      at.head * more().moves[1], at.batch * more().moves[2]);
    }
  }
  // Of the consumers that apply them; others' were not written.
  __device__ void load_bits(const TileIndex& at, int note, unsigned to, tile::Barrier& full) const {
    const MaskTiles& mask = p.problem.mask_tiles;
    constexpr int kBytes = 64 * C.keys / 8;
    full.expect(__popc(note & kNoteApplied) * kBytes);
#pragma unroll 1
    for (int w = 0; w < C.consumers; ++w) {
      if ((note >> w & 1) == 0) continue;
      const long long granule = static_cast<long long>(mask.batch_stride) * at.batch +
                                static_cast<long long>(mask.head_stride) * at.head +
                                mask.row_stride * (at.row_tile * C.consumers + w);
      ptx::bulk_load(
          to + w * kBytes,
          static_cast<const char*>(mask.bits) + (granule * mask.tiles + (note >> kNoteTile)) * kBytes, kBytes,
          full.address());
    }
  }

  __device__ void run() {
    static_assert(C.teams == 1);
    if (leads()) Base::begin();
    ptx::wait_for_dependencies();
    for (DealtTiles tiles(more()); !tiles.done(); tiles.advance()) {
      const TileIndex at = tiles.index();
      const tile::Sequence sequence{p.problem, at.batch};
      MaskWalk<C> walk(p.problem, at, key_tiles<C>(sequence.band(), sequence.queries(), at.row_tile),
                       shared.walk_states());
      const int kv_head = p.group.divide(at.head);
      // The first lane counts the tasks. Nobody reads any more what the slot said of an earlier one.
      const int task = __shfl_sync(0xffffffffu, static_cast<int>(Base::task_slot()), 0);
      const int count = walk.count(shared.part[task]);
      int note = walk.next();
      load_key(note, kv_head, at.batch);
      if (leads()) {
        Base::make_known({at, {0, count}, 0, sequence.band().offset});
        Base::load_query(at);
      }
      load_mask(at, note);
#pragma unroll 1
      for (int left = count; left > 1; --left) {
        const int tile = note >> kNoteTile;
        note = walk.next();
        if (C.joint() && leads()) Base::load_value(tile, kv_head, at.batch);
        load_key(note, kv_head, at.batch);
        if (!C.joint() && leads()) Base::load_value(tile, kv_head, at.batch);
        load_mask(at, note);
      }
      if (leads()) Base::load_value(note >> kNoteTile, kv_head, at.batch);
      __syncwarp();
    }
    if (leads()) {
      Base::end();
      Base::make_known({{-1, 0, 0}, {0, 0}});
    }
  }
};

}  // namespace tessera::cuda::sm90
