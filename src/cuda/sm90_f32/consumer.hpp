// A consumer warpgroup: 64 query rows of a tile from Q K to the finished output. Key tiles run downwards, and
// what happens to one (S, softmax, P V, which is added to O) is one step after the other: the tensor cores
// are kept busy by the other warpgroup meanwhile.
#pragma once

#include "cuda/sm90_f32/epilogue.hpp"
#include "cuda/sm90_f32/shared.hpp"
#include "cuda/sm90_f32/softmax.hpp"
#include "cuda/sm90_f32/walk.hpp"
#include "cuda/tile/options.hpp"

namespace tessera::cuda::sm90_f32 {

// Policy: what happens to scores (tile/score.hpp).
template <Config C, class Policy>
struct Consumer {
  const F32Params& p;
  Shared<C>& shared;
  int warpgroup;
  unsigned task_count = 0;  // row tiles taken so far
  unsigned tile_count = 0;  // key tiles taken so far
  int2 unmasked = {};       // key tiles [x, y) of the row tile need no masking

  using Ring = tile::Ring<C.stages>;
  using TaskRing = tile::RingIndex<kTasks>;

  __device__ int first_row(const TileIndex& at) const { return at.row_tile * C.rows() + 64 * warpgroup; }
  __device__ const Task& task() const { return shared.task[TaskRing::slot(task_count - 1)]; }

  __device__ void start_scores(Scores<C>& s, const Query<C>& held) const {
    shared.key_ring().wait_full(tile_count);
    sm90_f32::start_scores<C>(s, held, matrix_at(shared.query[warpgroup][0]),
                              matrix_at(shared.key[Ring::slot(tile_count)][0]));
  }
  __device__ void start_output(OutputBlock& o, const Probs<C>& probs, int block) const {
    sm90_f32::start_output<C>(o, probs,
                              matrix_at(shared.value[Ring::slot(tile_count)][0] + block * (C.keys * 128)));
  }
  __device__ static void add(OutputBlock& o, const OutputBlock& of_tile, const float (&shrink)[2]) {
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) o[n][e] = fmaf(o[n][e], shrink[e / 2], of_tile[n][e]);
  }

  // The last block of O's columns, where it is in shared memory: each thread has its own there.
  __device__ void shelve(const OutputBlock& o) const {
    if constexpr (C.shelved == 1)
#pragma unroll
      for (int n = 0; n < 8; ++n)
        shared.shelf[n][ptx::thread_x()] = make_float4(o[n][0], o[n][1], o[n][2], o[n][3]);
  }
  __device__ void take(OutputBlock& o) const {
    if constexpr (C.shelved == 1)
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const float4 x = shared.shelf[n][ptx::thread_x()];
        o[n][0] = x.x, o[n][1] = x.y, o[n][2] = x.z, o[n][3] = x.w;
      }
  }

  // The thread's rows are worked out anew each time: most tiles need no masking.
  __device__ void mask(Scores<C>& s, int tile) const {
    const Params& problem = p.problem;
    const TileIndex at = task().at;
    const tile::BlockView<float> view = tile::block_view<float>(problem, at.batch, at.head);
    const int lane = ptx::thread_x() % 32, key0 = tile * C.keys + 2 * (lane % 4);
    const int row = first_row(at) + ptx::thread_x() % 128 / 32 * 16 + lane / 4;
    if constexpr (Policy::kEveryTile) tile::change_all<true>(s, problem);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const tile::RowIndex index = view.index(min(row + 8 * r, view.rows - 1));
      if constexpr (Policy::kEveryTile) {
        tile::change_row(s, r, problem, Policy(problem, view, index), view.band, key0);
      } else {
        const int position = index.query + view.band.offset;
        Policy::hide(s, r, position - view.band.left - key0,
                     min(position + view.band.right + 1, view.band.keys) - key0);
      }
    }
  }

  // Key tiles that none of the warpgroup's rows sees.
  __device__ void pass_over(int hidden) {
#pragma unroll 1
    for (; hidden > 0; --hidden, ++tile_count) {
      shared.key_ring().wait_full(tile_count);
      shared.value_ring().wait_full(tile_count);
      __syncwarp();  // no thread of the warp is still waiting when it says that it is done
      shared.key_ring().release(tile_count);
      shared.value_ring().release(tile_count);
    }
  }

  // Of at least one key tile. O is added to, and Q released.
  __device__ void attend(const KeyTiles& range, RowState& rows, Output<C>& o) {
    Query<C> held;
    hold_query<C>(held, shared.query[warpgroup][0]);
    if (C.held == tile::kParts) shared.query_empty[warpgroup].arrive();
    for (int tile = range.first + range.count - 1; tile >= range.first; --tile, ++tile_count) {
      Probs<C> probs;
      float shrink[2];
      {
        Scores<C> s;
        start_scores(s, held);
        ptx::wgmma_wait<0>();
        ptx::pin(s);
        shared.key_ring().release(tile_count);
        if (Policy::kEveryTile || tile < unmasked.x || tile >= unmasked.y) mask(s, tile);
        soften<C>(probs, s, rows, Policy::factor(p.problem), shrink);
      }
      shared.value_ring().wait_full(tile_count);
#pragma unroll
      for (int block = 0; block < C.value_blocks(); ++block) {
        OutputBlock of_tile;
        start_output(of_tile, probs, block);
        ptx::wgmma_wait<0>();
        ptx::pin(of_tile);
        if (block == C.value_blocks() - 1) shared.value_ring().release(tile_count);
        if (block < C.value_blocks() - C.shelved) {
          add(o[block], of_tile, shrink);
        } else {
          OutputBlock before;
          take(before);
          add(before, of_tile, shrink);
          shelve(before);
        }
      }
    }
    if (C.held < tile::kParts) shared.query_empty[warpgroup].arrive();
  }

  __device__ void run() {
    for (;;) {
      TaskRing::wait(shared.task_there, task_count);
      ++task_count;
      const TileIndex at = task().at;
      if (at.row_tile < 0) return;
      run_tile(at, task().keys);
    }
  }

  // all: the key tiles that some row of the block sees; those of this warpgroup are among them.
  __device__ void run_tile(const TileIndex& at, const KeyTiles& all) {
    const tile::KeyRange seen =
        keys_of(tile::block_view<float>(p.problem, at.batch, at.head), first_row(at), 64);
    const KeyTiles own = key_tiles<C>(seen);
    unmasked = sm90::unmasked_tiles<C>(seen);
    RowState rows = tile::empty_rows();
    Output<C> o;
#pragma unroll
    for (int block = 0; block < C.value_blocks(); ++block) tile::clear(o[block]);
    shelve(o[C.value_blocks() - 1]);
    shared.query_full[warpgroup].wait((task_count - 1) & 1);
    if (own.count == 0) {
      shared.query_empty[warpgroup].arrive();
      pass_over(all.count);
    } else {
      pass_over(all.first + all.count - (own.first + own.count));
      attend(own, rows, o);
      pass_over(own.first - all.first);
    }
    take(o[C.value_blocks() - 1]);
    scale_row_max(rows, Policy::factor(p.problem));
    const bool lost = shared.lost[TaskRing::slot(task_count - 1)] != 0;
    finish_rows<C>(p, at, first_row(at) + ptx::thread_x() % 128 / 32 * 16, rows, o, lost);
  }
};

}  // namespace tessera::cuda::sm90_f32
