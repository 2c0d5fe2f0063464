// The producer: a warpgroup that tells the consumers which row tile is next, loads its Q, K and V and stores
// them in parts, as soon as there is room for them. Blocks of 64 columns follow each other: those of Q, then
// for every key tile those of K and of V. While one is stored, the next is on its way into the same
// registers.
#pragma once

#include "cuda/sm90_f32/loads.hpp"
#include "cuda/sm90_f32/shared.hpp"
#include "cuda/sm90_f32/walk.hpp"

namespace tessera::cuda::sm90_f32 {

// kAligned: as F32Params::aligned.
template <Config C, bool kAligned>
struct Producer {
  const F32Params& p;
  Shared<C>& shared;
  unsigned task_count = 0, tile_count = 0;  // row tiles made known, key tiles stored so far
  unsigned lost = 0;                        // see tile::split
  PieceIndex index = {};

  static constexpr int kQueryBlocks = C.consumers * C.blocks(), kBlocks = C.blocks() + C.value_blocks();
  using Ring = tile::Ring<C.stages>;
  using View = tile::BlockView<float>;

  // x[i] of a block of Q. first: the row tile's first row.
  __device__ void load_query(Piece& x, int i, const View& view, int first, int block) const {
    const Params& problem = p.problem;
    const int row = first + block / C.blocks() * 64 + index.row + 8 * i;
    const tile::RowIndex at = view.index(min(row, view.rows - 1));
    const float* const from = view.query + at.head * ptx::opaque(problem.query.strides.head) +
                              at.query * ptx::opaque(problem.query.strides.row);
    x[i] = load_four<kAligned>(from, block % C.blocks() * 64 + index.column,
                               row < view.rows ? problem.sizes.dim : 0);
  }
  // x[i] of a block of a key tile: K's, and V's behind them. keys: rows from there on read as zeros.
  __device__ void load_tile(Piece& x, int i, const View& view, int keys, int tile, int block) const {
    if (i >= C.keys / 8) return;
    const bool is_key = block < C.blocks();
    const long long stride =
        ptx::opaque(is_key ? p.problem.kv.key.strides.row : p.problem.kv.value.strides.row);
    const int columns = is_key ? p.problem.sizes.dim : p.problem.sizes.value_dim;
    const int row = tile * C.keys + index.row + 8 * i;
    const bool there =
        static_cast<unsigned>(row) < static_cast<unsigned>(keys);  // also no tile before the first
    x[i] =
        load_four<kAligned>((is_key ? view.key : view.value) + row * stride,
                            (is_key ? block : block - C.blocks()) * 64 + index.column, there ? columns : 0);
  }

  // All that this thread stored can be read by tensor cores as soon as it arrives; and it is known if
  // something got lost.
  __device__ void publish() {
    if ((lost & 0xffff) != 0) shared.lost[(task_count - 1) % kTasks] = 1;
    lost = 0;
    ptx::fence_for_tensor_cores();
  }

  template <class Reload>
  __device__ void store_query(Piece& x, int block, Reload reload) {
    const int w = block / C.blocks(), of_rows = block % C.blocks();
    if (of_rows == 0) shared.query_empty[w].wait(task_count & 1);
    const unsigned to = ptx::shared_address(shared.query[w][0]) + of_rows * (64 * 128) + index.offset();
    store_block<C.query_part(), 64>(x, to, lost, reload);
    if (of_rows == C.blocks() - 1) {
      publish();
      shared.query_full[w].arrive();
    }
  }
  template <class Reload>
  __device__ void store_tile(Piece& x, int block, Reload reload) {
    static_assert(C.key_part() == C.value_part());
    const bool is_key = block < C.blocks();
    const int of_tile = is_key ? block : block - C.blocks();
    const unsigned slot = Ring::slot(tile_count);
    const Ring ring = is_key ? shared.key_ring() : shared.value_ring();
    if (of_tile == 0) ring.wait_empty(tile_count);
    const char* const tile = is_key ? shared.key[slot][0] : shared.value[slot][0];
    const unsigned to = ptx::shared_address(tile) + of_tile * (C.keys * 128) + index.offset();
    store_block<C.key_part(), C.keys>(x, to, lost, reload);
    if (of_tile == C.blocks() - 1) {
      publish();
      __syncwarp();
      if (ptx::thread_x() % 32 == 0) ring.full[slot].arrive();
    }
  }

  // Whoever was told of this slot before is done with it: the last Q was stored, so the consumers have come
  // to the task before the last.
  __device__ void make_known(const Task& task) {
    const unsigned slot = task_count++ % kTasks;
    if (ptx::thread_x() % 128 == 0) {
      shared.task[slot] = task;
      shared.lost[slot] = 0;
      shared.task_there[slot].arrive();
    }
    ptx::named_sync(kProducerThreads, 128);  // nobody says that something is lost before that
  }

  __device__ void fill(const TileIndex& at) {
    const View view = tile::block_view<float>(p.problem, at.batch, at.head);
    const int first = at.row_tile * C.rows();
    const KeyTiles range = key_tiles<C>(keys_of(view, first, C.rows()));
    make_known({at, range});
    const int keys = range.count > 0 ? view.band.keys : 0;
    int tile = range.first + range.count - 1;
    Piece x;
#pragma unroll
    for (int i = 0; i < 8; ++i) load_query(x, i, view, first, 0);
#pragma unroll 1
    for (int n = 0; n + 1 < kQueryBlocks; ++n)
      store_query(x, n, [&](int i) { load_query(x, i, view, first, n + 1); });
    store_query(x, kQueryBlocks - 1, [&](int i) { load_tile(x, i, view, keys, tile, 0); });
#pragma unroll 1
    for (; tile >= range.first; --tile, ++tile_count) {
#pragma unroll 1
      for (int n = 0; n < kBlocks; ++n) {
        const bool last = n + 1 == kBlocks, none = last && tile == range.first;
        store_tile(x, n, [&](int i) {
          load_tile(x, i, view, none ? 0 : keys, last ? tile - 1 : tile, last ? 0 : n + 1);
        });
      }
    }
  }

  __device__ void run() {
    for (sm90::Tiles tiles(p.schedule); !tiles.done(); tiles.advance()) fill(tiles.index());
    make_known({{-1, 0, 0}, {0, 0}});
  }
};

}  // namespace tessera::cuda::sm90_f32
