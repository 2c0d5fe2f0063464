// A consumer warpgroup: 64 query rows of a tile from Q K to the finished output. With C.overlap, while the
// tensor cores work on
//
//   S(i) = Q K(i)   and   O += P(i+1) V(i+1)
//
// issued back to back, the threads wait for S(i) alone and take its softmax under the second product. Key
// tiles run downwards, so i + 1 is the tile before. Without it the second product is issued first, and the
// softmax runs under the products of the other warpgroups.
#pragma once

#include "cuda/ptx/dependent_launch.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/sm90/epilogue.hpp"
#include "cuda/sm90/mask.hpp"
#include "cuda/sm90/products.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

// kGeneral: softcap, ALiBi and mask tensors as well.
template <Config C, class T, bool kGeneral>
struct Consumer {
  const Sm90Params& p;
  Shared<C>& shared;
  int warpgroup, thread;  // thread of the warpgroup
  Tiles tiles;
  unsigned key_count;  // K tiles taken so far; V tiles are one behind, but for the end of a row tile

  using Ring = RingPlace<C.stages>;

  __device__ int first_row(const Place& at) const { return at.row_tile * C.rows() + 64 * warpgroup; }
  __device__ float factor() const { return kGeneral ? 1.0f : p.problem.scale_log2; }

  __device__ void start_scores(Scores<C>& s) const {
    sm90::start_scores<C, T>(s, ptx::shared_address(shared.query[warpgroup]),
                             ptx::shared_address(shared.key[Ring::slot(key_count)]));
  }
  __device__ void start_output(Output<C>& o, const Weights<C>& w, unsigned value) const {
    sm90::start_output<C, T>(o, w, ptx::shared_address(shared.value[Ring::slot(value)]));
  }

  __device__ void wait_key() const {
    ptx::barrier_wait(ptx::shared_address(&shared.key_full[Ring::slot(key_count)]), Ring::parity(key_count));
  }
  __device__ bool key_there() const {
    return ptx::barrier_done(ptx::shared_address(&shared.key_full[Ring::slot(key_count)]),
                             Ring::parity(key_count));
  }
  __device__ void wait_value(unsigned value) const {
    ptx::barrier_wait(ptx::shared_address(&shared.value_full[Ring::slot(value)]), Ring::parity(value));
  }
  // Each warp for itself: that one is done with its rows' product says nothing of the others.
  __device__ void release(unsigned long long& barrier) const {
    if (thread % 32 == 0) ptx::barrier_arrive(ptx::shared_address(&barrier));
  }

  __device__ void wait_turn() const {
    if constexpr (C.ping_pong) ptx::named_sync(kTurnOf + warpgroup, 256);
  }
  __device__ void pass_turn() const {
    if constexpr (C.ping_pong)
      ptx::named_arrive(kTurnOf + (warpgroup + 1 == C.consumers ? 0 : warpgroup + 1), 256);
  }

  __device__ void mask(Scores<C>& s, int tile) const {
    const Place at = tiles.place();
    mask_scores<C, T, kGeneral>(s, p.problem, at, first_row(at), tile);
  }

  // What a tile leaves for the next one besides its weights.
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
    if (c.pending) release(shared.value_empty[Ring::slot(value)]);
    c.pending = true;
    if (c.grew) rescale<C>(o, c.shrink);
  }

  // Scores of `tile` beside the output of the tile before it, whose weights are w; leaves those of `tile` in
  // `next`.
  template <bool kMask>
  __device__ void step(int tile, Carried& c, const Weights<C>& w, Weights<C>& next, Rows& rows,
                       Output<C>& o) {
    Scores<C> s;
    if (!c.key_there) wait_key();
    settle(c, key_count - 2, o);
    wait_turn();
    start_scores(s);
    wait_value(key_count - 1);
    start_output(o, w, key_count - 1);
    pass_turn();
    ptx::wgmma_wait<1>();
    release(shared.key_empty[Ring::slot(key_count)]);
    ++key_count;
    c.key_there = key_there();
    if constexpr (kMask) mask(s, tile);
    c.grew = continue_softmax<C, T>(next, s, rows, factor(), c.shrink);
  }
  __device__ void step(int tile, int2 unmasked, Carried& c, const Weights<C>& w, Weights<C>& next, Rows& rows,
                       Output<C>& o) {
    if (needs_mask(tile, unmasked)) {
      step<true>(tile, c, w, next, rows, o);
    } else {
      step<false>(tile, c, w, next, rows, o);
    }
  }

  __device__ bool needs_mask(int tile, int2 unmasked) const {
    return kGeneral || tile < unmasked.x || tile >= unmasked.y;
  }

  // The last key tile, which has nothing before it.
  __device__ void first_step(int tile, int2 unmasked, Weights<C>& w, Rows& rows) {
    Scores<C> s;
    wait_key();
    start_scores(s);
    ptx::wgmma_wait<0>();
    ptx::pin(s);
    release(shared.key_empty[Ring::slot(key_count)]);
    ++key_count;
    if (needs_mask(tile, unmasked)) mask(s, tile);
    start_softmax<C, T>(w, s, rows, factor());
  }

  __device__ void attend_overlapped(const KeyTiles& range, int2 unmasked, Rows& rows, Output<C>& o) {
    Carried c = {{1.0f, 1.0f}, false, false, false};
    Weights<C> even, odd;  // in turn, so that none has to be copied
    int tile = range.first + range.count - 1;
    first_step(tile, unmasked, even, rows);
    for (--tile; tile > range.first; tile -= 2) {
      step(tile, unmasked, c, even, odd, rows, o);
      step(tile - 1, unmasked, c, odd, even, rows, o);
    }
    const bool one_more = tile == range.first;
    if (one_more) step(tile, unmasked, c, even, odd, rows, o);
    if (C.own_output) release(shared.query_empty[warpgroup]);
    wait_value(key_count - 1);
    settle(c, key_count - 2, o);
    if (one_more) {
      start_output(o, odd, key_count - 1);
    } else {
      start_output(o, even, key_count - 1);
    }
    ptx::wgmma_wait<0>();
    release(shared.value_empty[Ring::slot(key_count - 1)]);
  }

  // The output of the tile before, then the scores of `tile`; its softmax runs under the other warpgroups'
  // products. One set of weights is enough.
  template <bool kMask>
  __device__ void step_in_turn(int tile, Weights<C>& w, Rows& rows, Output<C>& o) {
    Scores<C> s;
    wait_value(key_count - 1);
    wait_key();
    wait_turn();
    start_output(o, w, key_count - 1);
    start_scores(s);
    pass_turn();
    ptx::wgmma_wait<0>();
    release(shared.value_empty[Ring::slot(key_count - 1)]);
    release(shared.key_empty[Ring::slot(key_count)]);
    ++key_count;
    if constexpr (kMask) mask(s, tile);
    float shrink[2];
    if (continue_softmax<C, T>(w, s, rows, factor(), shrink)) rescale<C>(o, shrink);
  }

  __device__ void attend_in_turn(const KeyTiles& range, int2 unmasked, Rows& rows, Output<C>& o) {
    Weights<C> w;
    int tile = range.first + range.count - 1;
    first_step(tile, unmasked, w, rows);
    for (--tile; tile >= range.first; --tile) {
      if (needs_mask(tile, unmasked)) {
        step_in_turn<true>(tile, w, rows, o);
      } else {
        step_in_turn<false>(tile, w, rows, o);
      }
    }
    if (C.own_output) release(shared.query_empty[warpgroup]);
    wait_value(key_count - 1);
    start_output(o, w, key_count - 1);
    ptx::wgmma_wait<0>();
    release(shared.value_empty[Ring::slot(key_count - 1)]);
  }

  __device__ void run() {
    if (C.ping_pong && warpgroup == C.consumers - 1) pass_turn();
    unsigned query_parity = 0;
    for (; !tiles.done(); tiles.advance()) {
      Rows rows = {{tile::kLowest, tile::kLowest}, {0.0f, 0.0f}};
      Output<C> o;
#pragma unroll
      for (int i = 0; i < C.value_dim / 2; ++i) o[i] = 0.0f;
      ptx::barrier_wait(ptx::shared_address(&shared.query_full[warpgroup]), query_parity);
      query_parity ^= 1;
      {
        const Place at = tiles.place();
        const tile::Band band = tile::band_of(p.problem, at.batch);
        const int last = p.problem.queries - 1, row = first_row(at);
        const KeyTiles range = key_tiles<C>(band, p.problem, at);
        if (range.count > 0) {
          const int2 unmasked = unmasked_tiles<C>(band, min(row, last), min(row + 63, last));
          if constexpr (C.overlap) {
            attend_overlapped(range, unmasked, rows, o);
          } else {
            attend_in_turn(range, unmasked, rows, o);
          }
        } else if (C.own_output) {
          release(shared.query_empty[warpgroup]);
        }
      }
      ptx::await_kernels_before();
      const Place at = tiles.place();
      char* const staged = C.own_output ? shared.output[warpgroup] : shared.query[warpgroup];
      // The thread's number is read anew: what is made of it would take registers all through the loop.
      write_output<C, T>(p, at, first_row(at), ptx::thread_x() % 128, kOutputOf + warpgroup, staged, rows, o);
      if (!C.own_output) {
        ptx::named_sync(kOutputOf + warpgroup, 128);  // thread 0 has seen the boxes read
        release(shared.query_empty[warpgroup]);
      }
    }
    if (C.ping_pong && warpgroup == 0) wait_turn();  // take the last turn, so that no arrival is left over
    if (thread == 0) ptx::wait_boxes_read();         // the block's memory must outlive them
  }
};

}  // namespace tessera::cuda::sm90
