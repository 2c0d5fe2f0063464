// A consumer warpgroup: 64 query rows of a tile from Q K to the finished output. Here is what it does with
// one key tile: the products, masks and softmax of its scores. In which order, and over which row tiles, is
// in consumer_rows.hpp.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/mask.hpp"
#include "cuda/sm90/products.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"
#include "cuda/tile/softmax.hpp"

namespace tessera::cuda::sm90 {

// In sm90_fp8/coded.hpp, for kernels whose inputs are of 8 bits: what their scores are multiplied by (once
// for all of a row tile, and tile by tile), and how their rows end.
template <Config C, bool kEveryTile>
__device__ float coded_factor(const Sm90Params& p, const TileIndex& at, int first_row);
template <Config C>
__device__ void scale_coded(Scores<C>& s, const Sm90Params& p, const TileIndex& at, float factor, int tile);
template <Config C, bool kEveryTile>
__device__ bool write_coded(const Sm90Params& p, const TileIndex& at, int first_row, RowState& rows,
                            const Output<C>& o);
template <Config C>
__device__ void recompute_coded(const Sm90Params& p, const TileIndex& at, int first, int end);

// The same in widened.hpp and narrow.hpp, where K and V alone are.
template <Config C>
__device__ float widened_factor(const Sm90Params& p, const EntryTask& task);
template <Config C>
__device__ tile::RowFactors narrow_query(char* query, int warpgroup, float factor);
template <Config C>
__device__ bool write_widened(const Sm90Params& p, const EntryTask& task, int first_row, RowState& rows,
                              const Output<C>& o);
template <Config C>
__device__ void recompute_widened(const Sm90Params& p, const TileIndex& at, int first, int end);

// A row tile's factor, where it has one of its own, or those of its rows.
template <bool kOwn, bool kRows = false>
struct OwnFactor {};
template <>
struct OwnFactor<true> {
  float value;
};
template <>
struct OwnFactor<true, true> {
  tile::RowFactors value;
};

// Policy: what happens to scores (tile/score.hpp).
template <Config C, class T, class Policy>
struct Consumer {
  const Sm90Params& p;
  Shared<C>& shared;
  int team, warpgroup;      // warpgroup of the team
  unsigned task_count = 0;  // row tiles taken so far
  unsigned key_count = 0;   // K tiles taken so far; V tiles are one behind, but for the end of a row tile
  int2 unmasked = {};       // key tiles [x, y) of the row tile need no masking
  // With a mask tensor: what the producer says of the key tile (mask_walk.hpp), and slots of the mask seen so
  // far.
  int note = 0;
  unsigned mask_count = 0;
  Policy policy = {};
  OwnFactor<C.own_factor(), C.narrows()> scales = {};

  using Ring = tile::Ring<C.stages>;
  using TaskRing = tile::RingIndex<kTasks>;

  // The warp's own word: no register can be kept for it.
  __device__ int& suspect() const { return shared.suspect[ptx::thread_x() / 32 % (4 * C.consumers)]; }
  __device__ int first_row(const TileIndex& at) const { return at.row_tile * C.rows() + 64 * warpgroup; }
  // The row tile that was taken last, or the one before it.
  __device__ const TaskOf<C>& task(unsigned before = 0) const {
    return shared.task[TaskRing::slot(task_count - 1 - before)];
  }
  __device__ auto factor() const {
    if constexpr (C.narrows()) {
      return scales.value;
    } else {
      return factor_of_all();
    }
  }
  __device__ typename Policy::Factor factor_of_all() const {
    if constexpr (C.own_factor() && !Policy::kEveryTile) return {scales.value};
    return {Policy::factor(p.problem)};
  }

  __device__ void start_scores(Scores<C>& s) const {
    // Past head dim 128 there are no registers for what would otherwise be worked out once for all key tiles.
    const int rows = C.dim > 128 ? ptx::thread_x() / 128 : warpgroup;
    sm90::start_scores<C, T>(s, query_matrix(shared.query[rows]),
                             first_key().moved(Ring::slot(key_count) * (C.key_bytes() / 16)));
  }
  __device__ void start_output(Output<C>& o, const Probs<C>& probs, unsigned value) const {
    constexpr unsigned kFirst = sizeof(shared.key) / 16;  // V's tiles stand behind K's
    sm90::start_output<C, T>(o, probs,
                             first_key().moved(kFirst + Ring::slot(value) * (C.value_bytes() / 16)));
  }
  // Everything else is this and a little arithmetic, which is on the way to every product.
  __device__ ptx::MatrixDescriptor first_key() const { return tile_matrix<C>(shared.key[0]); }

  __device__ void wait_key() const { shared.key_ring().wait_full(key_count); }
  __device__ void release_key() {
    shared.key_ring().release(key_count);
    ++key_count;
  }
  __device__ void release_query() const { shared.query_empty[warpgroup].arrive(); }

  __device__ void wait_turn() const {
    if constexpr (C.ping_pong) ptx::named_sync(kTurnOf + warpgroup, 256);
  }
  __device__ void pass_turn() const {
    if constexpr (C.ping_pong)
      ptx::named_arrive(kTurnOf + (warpgroup + 1 == C.consumers ? 0 : warpgroup + 1), 256);
  }

  __device__ bool sees_all(int tile) const { return tile >= unmasked.x && tile < unmasked.y; }
  __device__ void hide(Scores<C>& s, int tile) const {
    const TileIndex at = task().at;
    if constexpr (C.entries) {
      hide_by_band<C>(s, task().band(p.problem), task().queries, first_row(at), tile);
    } else {
      hide_by_position<C>(s, p.problem, at, first_row(at), tile);
    }
  }
  // Of the thread's first row, on the key axis; the second stands 8 behind it.
  __device__ int position() const {
    const auto& now = task();
    return first_row(now.at) + ptx::thread_x() % 128 / 32 * 16 + ptx::thread_x() % 32 / 4 + now.offset;
  }
  __device__ static int thread_key(int tile) { return tile * C.keys + 2 * (ptx::thread_x() % 4); }
  // What the policy and the band make of scores. Some policies do something in every tile, on the spot;
  // others only where the tile is left by the straight loop for it.
  __device__ void change(Scores<C>& s, int tile) {
    tile = key_tile(tile);
    if constexpr (C.coded() && Policy::kEveryTile) scale_coded<C>(s, p, task().at, scales.value, tile);
    policy.apply(s, p.problem, position(), thread_key(tile));
    if constexpr (Policy::kMaskTensor)
      if ((note & kNoteApplied) != 0) apply_mask(s);
    if (!sees_all(tile)) hide(s, tile);
  }
  // The next slot of the mask tensor: what `use` makes of it, then it is free again.
  template <class Use>
  __device__ void take_mask(const Use& use) {
    const auto& more = static_cast<const Sm90MaskParams&>(p);
    const unsigned n = mask_count & ((1u << more.slot_bits) - 1);
    shared.mask_full[n].wait(mask_count >> more.slot_bits & 1);
    ++mask_count;
    use(MaskSlot<C>{more, shared.mask_slot(n, more.slot_bytes), warpgroup});
    shared.mask_empty[n].arrive();  // each thread for what it has read; of a warp that is one step, too
  }
  __device__ void apply_mask(Scores<C>& s) {
    take_mask([&](const MaskSlot<C>& slot) {
      const int own = own_note();
      if ((own & 1) != 0) slot.apply(s, (own >> kNoteFinite & 1) != 0);
    });
  }
  // A key tile of which the warpgroup needs no mask; others may.
  __device__ void leave_mask() {
    if ((note & kNoteApplied) != 0) take_mask([](const MaskSlot<C>&) {});
  }
  // What it says of the warpgroup itself. Which that is, is asked again: one more uniform register in use,
  // and the descriptors of a product's steps have to share one, so that each step waits for the one before.
  __device__ int own_note() const { return note >> (kFarOutside ? ptx::thread_x() / 128 : warpgroup); }
  // The mask tensor hides the whole tile from the warpgroup's rows, though not from others'.
  __device__ bool all_hidden() const { return (own_note() >> kNoteHidden & 1) != 0; }
  // Before the slot is released, and before the product, at which the warp's threads meet.
  __device__ void read_note() {
    if constexpr (Policy::kMaskTensor) note = shared.note[Ring::slot(key_count)];
  }

  // What a tile leaves for the next one besides its P.
  struct Carried {
    float shrink[2];
    bool grew;       // O must be multiplied by `shrink`
    bool pending;    // an output product is still being computed
    bool key_there;  // the next K has landed
  };

  // Ends the output product that is under way, that of value tile `value`. Always behind a wait for a
  // barrier: the compiler moves a wait for a product up as far as it can, but not over a barrier, and the
  // softmax before is meant to run under it.
  __device__ void settle(Carried& c, unsigned value, Output<C>& o) const {
    ptx::wgmma_wait<0>();
    if (c.pending) shared.value_ring().release(value);
    c.pending = true;
    if (c.grew) tile::scale_rows(o, c.shrink);
  }

  // Scores of the next tile beside the output of the one before.
  __device__ void multiply(Carried& c, const Probs<C>& probs, Scores<C>& s, Output<C>& o) {
    if (!c.key_there) wait_key();
    read_note();
    settle(c, key_count - 2, o);
    wait_turn();
    start_scores(s);
    shared.value_ring().wait_full(key_count - 1);
    start_output(o, probs, key_count - 1);
    pass_turn();
    ptx::wgmma_wait<1>();
    release_key();
    c.key_there = shared.key_ring().is_full(key_count);
  }

  // Of a row tile's key tiles, counted from 0 in the order from last to first: which it is. With a mask
  // tensor the producer says so; where they are visited from the diagonal on, they are rotated.
  __device__ int key_tile(int tile) const {
    if constexpr (Policy::kMaskTensor) return note >> kNoteTile;
    if constexpr (Policy::kRotates) return rotated(task().keys, tile, task().rotation);
    return tile;
  }
  // The same for all warps of the warpgroup.
  __device__ bool needs_change(int tile) const {
    if (Policy::kEveryTile) return false;
    tile = key_tile(tile);
    return !sees_all(tile) || (Policy::kRotates && !before(tile) && !behind(tile));
  }
  // All its keys stand before all the warpgroup's rows, or behind; what stands with one is both.
  __device__ bool before(int tile) const {
    return (tile + 1) * C.keys - 1 <= first_row(task().at) + task().offset;
  }
  __device__ bool behind(int tile) const {
    return tile * C.keys >= first_row(task().at) + task().offset + 63;
  }
  // Later tiles than the first, inside the loop.
  __device__ bool go_on(int tile, Probs<C>& probs, Scores<C>& s, RowState& rows) const {
    tile = key_tile(tile);
    if (Policy::kRotates && !before(tile)) return go_on_with<false>(tile, probs, s, rows);
    return go_on_with<true>(tile, probs, s, rows);
  }
  template <bool kBefore>
  __device__ bool go_on_with(int tile, Probs<C>& probs, Scores<C>& s, RowState& rows) const {
    const auto shift = policy.template shift<kBefore, C.keys>(rows, position(), thread_key(tile));
    if constexpr (kFarOutside)
      return continue_softmax<C, T>(probs, s, rows, shift, Policy::factor(p.problem));
    return continue_softmax<C, T>(probs, s, rows, shift, factor());
  }
  // When that said that something has grown. Scores stay what they are: so do the bits of rows that have not.
  __device__ void start_over(int tile, Probs<C>& probs, Scores<C>& s, RowState& rows,
                             float (&shrink)[2]) const {
    if constexpr (Policy::kRotates) {
      tile = key_tile(tile);
      if (before(tile)) {
        start_over_with<true>(tile, probs, s, rows, shrink);
      } else {
        start_over_with<false>(tile, probs, s, rows, shrink);
      }
    } else {
      grown_softmax<C, T>(probs, s, rows, factor(), shrink);
    }
  }
  template <bool kBefore>
  __device__ void start_over_with(int tile, Probs<C>& probs, Scores<C>& s, RowState& rows,
                                  float (&shrink)[2]) const {
    const auto shift_of = [&](const RowState& of) {
      return policy.template shift<kBefore, C.keys>(of, position(), thread_key(tile));
    };
    grown_softmax_shifted<C, T>(probs, s, rows, shift_of, factor(), shrink);
  }

  // Key tiles that none of the warpgroup's rows sees.
  __device__ void pass_over(int hidden) {
#pragma unroll 1
    for (; hidden > 0; --hidden) {
      wait_key();
      if constexpr (Policy::kMaskTensor) {
        read_note();
        leave_mask();
      }
      wait_turn();
      pass_turn();
      __syncwarp();  // no thread of the warp is still waiting when it says that it is done
      release_key();
    }
  }

  // A row tile's first scores, those of its last key tile; see run_ahead for those of one that is not there.
  __device__ void start_first(Scores<C>& s, bool there = true) {
    if (there) {
      shared.query_full[warpgroup].wait((task_count - 1) & 1);
      if constexpr (C.narrows())
        scales.value = narrow_query<C>(shared.query[warpgroup], warpgroup, widened_factor<C>(p, task()));
      wait_key();
      read_note();
    }
    start_scores(s);
  }
  __device__ void finish_first(int tile, Scores<C>& s, Probs<C>& probs, RowState& rows) {
    ptx::wgmma_wait<0>();
    ptx::pin(s);
    release_key();
    if (Policy::kEveryTile || Policy::kRotates || needs_change(tile)) change(s, tile);
    if (Policy::kMaskTensor && all_hidden()) hide_all(s);  // there is nothing that the rows see
    start_softmax<C, T>(probs, s, rows, factor());
  }

  // The softmax of a tile that stays in the loop. What has grown is mended here, not outside the loop: of a
  // warpgroup's warps only some may have to, and all must come to the next product by the same way.
  __device__ void soften(Carried& c, int tile, Probs<C>& probs, Scores<C>& s, RowState& rows) {
    if constexpr (Policy::kEveryTile) change(s, tile);
    c.grew = !go_on(tile, probs, s, rows);
    if (c.grew) start_over(tile, probs, s, rows, c.shrink);
  }

  // Where most key tiles are changed outside the loop, their softmax is first tried as the loop's is.
  // Elsewhere that is code which costs the loop 1 to 2% (docs/negatives.md).
  static constexpr bool kTriesOnce = C.teams > 1 || Policy::kEveryTile || Policy::kRotates;

  // The output of the tile before, then the scores of the next. K and V are joint: V of the tile before is in
  // the slot of this one's K.
  __device__ void multiply_in_turn(const Probs<C>& probs, Scores<C>& s, Output<C>& o) {
    wait_key();
    read_note();
    wait_turn();
    start_output(o, probs, key_count);
    start_scores(s);
    pass_turn();
    ptx::wgmma_wait<0>();
    ptx::pin(s);
    release_key();
  }

  __device__ static void clear_probs(Probs<C>& probs) {
#pragma unroll
    for (int k = 0; k < C.keys / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) probs[k][i] = 0;
  }

  // Rows that a mask tensor pushes far out have a factor of their own. To ask for it in the loop over key
  // tiles takes uniform registers, of which long products have none to spare (docs/negatives.md); to leave
  // the loop takes others.
  static constexpr bool kFarOutside = Policy::kMaskTensor && C.dim > 64;

  // What memory or the sizes say of a row tile's entry; of a ragged batch the task itself.
  __device__ int queries_of(const TaskOf<C>& of) const {
    if constexpr (C.entries) return of.queries;
    return tile::Sequence{p.problem, of.at.batch}.queries();
  }
  __device__ tile::Band band_of(const TaskOf<C>& of) const {
    if constexpr (C.entries) return of.band(p.problem);
    return tile::Sequence{p.problem, of.at.batch}.band();
  }

  // Key tiles behind those that the warpgroup has seen.
  __device__ void leave(const KeyTiles& range) {
    if constexpr (C.passes_over() || Policy::kMaskTensor) pass_over(range.first - task().keys.first);
  }

  // In consumer_rows.hpp.
  __device__ void run();
  __device__ void run_one_by_one();
  __device__ void run_ahead();
  __device__ bool enter(KeyTiles& range);
  __device__ void attend_overlapped(const KeyTiles& range, RowState& rows, Output<C>& o);
  __device__ void attend_in_turn(const KeyTiles& range, Scores<C>& first, RowState& rows, Output<C>& o);
  __device__ void write(const TaskOf<C>& of, RowState& rows, const Output<C>& o) const;
  __device__ void recompute() const;
  __device__ void recompute(const TileIndex& at) const;
};

}  // namespace tessera::cuda::sm90
