// How a consumer warpgroup goes through row tiles. With C.overlap, while the tensor cores work on
//
//   S(i) = Q K(i)   and   O += P(i+1) V(i+1)
//
// issued back to back, the threads wait for S(i) alone and take its softmax under the second product. Key
// tiles run downwards, so i + 1 is the tile before. Without it the second product is issued first, and the
// softmax runs under the products of the other warpgroups.
//
// What few tiles need stands outside the loop over key tiles, which then is one straight stretch of code:
// jumping over it costs more than it seems (docs/sm90.md, "Code").
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm90/consumer.hpp"
#include "cuda/sm90/dealt.hpp"
#include "cuda/sm90/epilogue.hpp"

namespace tessera::cuda::sm90 {

template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::attend_overlapped(const KeyTiles& range, RowState& rows,
                                                          Output<C>& o) {
  Carried c = {{1.0f, 1.0f}, false, false, false};
  Probs<C> even, odd;  // in turn, so that none has to be copied
  int tile = range.first + range.count - 1;
  {
    Scores<C> s;
    start_first(s);
    finish_first(tile, s, even, rows);
  }
  bool in_odd = false;  // where the last P is
  for (;;) {
    Scores<C> s;
    while (--tile >= range.first) {
      multiply(c, even, s, o);
      in_odd = true;
      if (needs_change(tile)) break;
      soften(c, tile, odd, s, rows);
      if (--tile < range.first) break;
      multiply(c, odd, s, o);
      in_odd = false;
      if (needs_change(tile)) break;
      soften(c, tile, even, s, rows);
    }
    if (tile < range.first) break;
    change(s, tile);
    ptx::wgmma_wait<0>();  // whichever P the output is made of, `even` is free now
    c.grew = !(kTriesOnce && continue_softmax<C, T>(even, s, rows, factor()));
    if (c.grew) grown_softmax<C, T>(even, s, rows, factor(), c.shrink);
    in_odd = false;
  }
  release_query();
  shared.value_ring().wait_full(key_count - 1);
  settle(c, key_count - 2, o);
  if (in_odd) {
    start_output(o, odd, key_count - 1);
  } else {
    start_output(o, even, key_count - 1);
  }
  ptx::wgmma_wait<0>();
  shared.value_ring().release(key_count - 1);
}

// A warpgroup's softmax runs under the other warpgroups' products. One set of P is enough, and there is one
// place where products are issued: what has grown can be mended outside the loop as well, and so can rows
// that are far out, tile by tile.
template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::attend_in_turn(const KeyTiles& range, Scores<C>& first,
                                                       RowState& rows, Output<C>& o) {
  Probs<C> probs;
  int tile = range.first + range.count - 1;
  finish_first(tile, first, probs, rows);
  for (;;) {
    const bool far_out = kFarOutside && any_far_out(rows);
    Scores<C> s;
    while (--tile >= range.first) {
      multiply_in_turn(probs, s, o);
      if (Policy::kMaskTensor && all_hidden()) {
        leave_mask();
        clear_probs(probs);
        continue;
      }
      if constexpr (Policy::kEveryTile) change(s, tile);
      if (needs_change(tile) || far_out || !go_on(tile, probs, s, rows)) break;
    }
    if (tile < range.first) break;
    float shrink[2];
    if (needs_change(tile)) {
      change(s, tile);
      if (kTriesOnce && continue_softmax<C, T>(probs, s, rows, factor())) continue;
    } else if constexpr (Policy::kRotates) {
      start_over(tile, probs, s, rows, shrink);
      tile::scale_rows(o, shrink);
      continue;
    }
    grown_softmax<C, T>(probs, s, rows, factor(), shrink);
    tile::scale_rows(o, shrink);
  }
  release_query();
  wait_key();  // the slot is released when the K in it, of the next row tile, has been used
  start_output(o, probs, key_count);
  ptx::wgmma_wait<0>();
}

template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::run() {
  if (C.ping_pong && warpgroup == C.consumers - 1) pass_turn();
  if (ptx::thread_x() % 32 == 0) suspect() = 0;
  if constexpr (C.ahead) {
    run_ahead();
  } else {
    run_one_by_one();
  }
  if (C.ping_pong && warpgroup == 0) wait_turn();  // take the last turn, so that no arrival is left over
  __syncwarp();
  if (suspect() != 0) recompute();
}

template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::run_one_by_one() {
  for (KeyTiles range; enter(range); leave(range)) {
    RowState rows;
    Output<C> o;
    tile::clear(o);
    if constexpr (C.overlap) {
      attend_overlapped(range, rows, o);
    } else {
      Scores<C> first;
      start_first(first);
      attend_in_turn(range, first, rows, o);
    }
    write(task(), rows, o);
  }
}

template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::run_ahead() {
  static_assert(!C.overlap && C.teams == 1);  // a second team may have no row tile at all
  Scores<C> first;
  RowState rows;
  Output<C> o;
  KeyTiles range;
  bool more = enter(range);
  if constexpr (C.entries)
    if (!more) return;  // of a ragged batch there may be less than a row tile for every block
  start_first(first);
  // Behind the last row tile come scores of whatever is in shared memory, which nobody looks at: products
  // that are not always issued would make the compiler lose sight of which registers they use.
  while (more) {
    tile::clear(o);
    attend_in_turn(range, first, rows, o);
    leave(range);
    more = enter(range);
    start_first(first, more);
    write(task(1), rows, o);
  }
  ptx::wgmma_wait<0>();
  ptx::pin(first);
}

template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::write(const TaskOf<C>& of, RowState& rows, const Output<C>& o) const {
  ptx::wait_for_dependencies();
  bool wrong;
  if constexpr (C.coded()) {
    wrong = write_coded<C, Policy::kEveryTile>(p, of.at, first_row(of.at), rows, o);
  } else if constexpr (C.widens()) {
    wrong = write_widened<C>(p, of, first_row(of.at), rows, o);
  } else if constexpr (C.entries) {
    wrong = write_entry<C, T>(p.problem, of, first_row(of.at), rows, o);
  } else {
    wrong = write_output<C, T>(p.problem, of.at, first_row(of.at), rows, o);
  }
  if (wrong && ptx::thread_x() % 32 == 0) suspect() = 1;
}

// Takes the next row tile and works out its key tiles, while Q is on the way. False if there is none.
template <Config C, class T, class Policy>
__device__ bool Consumer<C, T, Policy>::enter(KeyTiles& range) {
  TaskRing::wait(shared.task_there, task_count);
  ++task_count;
  const auto& next = task();
  if (next.at.row_tile < 0) return false;
  range = next.keys;
  const int last = queries_of(next) - 1, row = first_row(next.at);
  const tile::KeyRange seen = tile::key_range(band_of(next), min(row, last), min(row + 63, last));
  unmasked = unmasked_tiles<C>(seen);
  policy.enter(p.problem, next.at.batch, next.at.head);
  if constexpr (C.coded()) scales.value = coded_factor<C, Policy::kEveryTile>(p, next.at, row);
  if constexpr (C.widens() && !C.narrows()) scales.value = widened_factor<C>(p, next);
  if constexpr (Policy::kMaskTensor) {
    range = shared.part[TaskRing::slot(task_count - 1)][warpgroup];
    pass_over(next.keys.count - (range.first + range.count));
  } else if constexpr (C.passes_over()) {
    static_assert(C.joint());  // pass_over releases no slots of V alone
    const int end = range.first + range.count;
    // There may be no such rows, or nothing that they see: then the last tile alone.
    range = tiles_of<C>(row > last ? tile::KeyRange{} : seen, {end - 1, 1});
    pass_over(end - (range.first + range.count));
  }
  return true;
}

// The warp's rows of all the row tiles, where something is wrong with what it wrote.
template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::recompute() const {
  if constexpr (C.entries) {
    const EntryList& list = static_cast<const EntriesParams&>(p).list;
#pragma unroll 1
    for (int n = 0; list.tiles[n].row_tile >= 0; ++n)
      if (list.tiles[n].block == static_cast<int>(blockIdx.x))
        recompute({list.tiles[n].row_tile, list.tiles[n].head, list.tiles[n].of.batch});
  } else if constexpr (Policy::kMaskTensor) {
    for_dealt(static_cast<const Sm90MaskParams&>(p), [&](const TileIndex& at) { recompute(at); });
  } else {
    for (Tiles again(p.schedule, team, C.teams); !again.done(); again.advance()) recompute(again.index());
  }
}

template <Config C, class T, class Policy>
__device__ void Consumer<C, T, Policy>::recompute(const TileIndex& at) const {
  const int first = first_row(at) + ptx::thread_x() % 128 / 32 * 16;
  if constexpr (C.coded()) {
    recompute_coded<C>(p, at, first, first + 16);
  } else if constexpr (C.widens()) {
    recompute_widened<C>(p, at, first, first + 16);
  } else if constexpr (C.entries) {
    recompute_suspects<T, false, true>(p.problem, at, first, first + 16);
  } else {
    recompute_suspects<T, Policy::kMaskTensor>(p.problem, at, first, first + 16);
  }
}

}  // namespace tessera::cuda::sm90
