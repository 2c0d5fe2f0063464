// The producer: a warpgroup that tells the consumers which row tile is next, loads its Q, K and V and stores
// them in parts, as soon as there is room for them. What comes next is on its way into one half of its
// registers while what came is stored from the other:
//
//   Q blocks, then for every key tile K blocks, V blocks    block n comes by piece n % 2
#pragma once

#include "cuda/sm90_f32/loads.hpp"
#include "cuda/sm90_f32/shared.hpp"
#include "cuda/sm90_f32/walk.hpp"

namespace tessera::cuda::sm90_f32 {

template <Config C>
struct Producer {
  const F32Params& p;
  Shared<C>& shared;
  unsigned task_count = 0, tile_count = 0;  // row tiles made known, key tiles stored so far
  TileIndex at = {};
  unsigned lost = 0;  // see tile::split

  static constexpr int kQueryBlocks = C.consumers * C.blocks(), kBlocks = C.blocks() + C.value_blocks();
  static_assert(kQueryBlocks % 2 == 0 && kBlocks % 2 == 0);  // K's first block is always piece 0

  using Ring = tile::Ring<C.stages>;
  using QueryPiece = Piece<64>;
  using KeyPiece = Piece<C.keys>;

  __device__ void load_query(QueryPiece& x, const tile::BlockView<float>& view, int block) const {
    const Params& problem = p.problem;
    const int first = at.row_tile * C.rows() + block / C.blocks() * 64;
    Source source = source_of(problem.query, view.query, problem.sizes.dim);
    source.vector &= (problem.query.strides.head & 3) == 0;
    const float* const rows = ptx::opaque(view.query);
    load_block(x, source, block % C.blocks(), [&](int row) -> const float* {
      if (first + row >= view.rows) return nullptr;
      const tile::RowIndex index = view.index(first + row);
      return rows + index.head * problem.query.strides.head + index.query * problem.query.strides.row;
    });
  }
  // Of K's blocks and V's behind them.
  __device__ void load_tile(KeyPiece& x, const tile::BlockView<float>& view, int tile, int block) const {
    const bool is_key = block < C.blocks();
    const Tensor& tensor = is_key ? p.problem.kv.key : p.problem.kv.value;
    const float* const rows = is_key ? view.key : view.value;
    const long long stride = ptx::opaque(tensor.strides.row);
    const int first = tile * C.keys, columns = is_key ? p.problem.sizes.dim : p.problem.sizes.value_dim;
    load_block(x, source_of(tensor, rows, columns), is_key ? block : block - C.blocks(),
               [&](int row) -> const float* {
                 return first + row < view.band.keys ? rows + (first + row) * stride : nullptr;
               });
  }

  // All that this thread stored can be read. Before that, what got lost is known.
  __device__ void publish(tile::Barrier& full) {
    if ((lost & 0xffff) != 0) shared.lost[(task_count - 1) % kTasks] = 1;
    lost = 0;
    ptx::fence_for_tensor_cores();
    __syncwarp();
    if (ptx::thread_x() % 32 == 0) full.arrive();
  }

  __device__ void store_query(const QueryPiece& x, int block) {
    const int w = block / C.blocks();
    if (block % C.blocks() == 0) shared.query_empty[w].wait(task_count & 1);
    store_block<C.query_part()>(x, shared.query[w][0] + block % C.blocks() * (64 * 128), lost);
    if (block % C.blocks() == C.blocks() - 1) publish(shared.query_full[w]);
  }
  __device__ void store_tile(const KeyPiece& x, int block) {
    const unsigned slot = Ring::slot(tile_count);
    if (block < C.blocks()) {
      if (block == 0) shared.key_ring().wait_empty(tile_count);
      store_block<C.key_part()>(x, shared.key[slot][0] + block * (C.keys * 128), lost);
      if (block == C.blocks() - 1) publish(shared.key_full[slot]);
    } else {
      const int value_block = block - C.blocks();
      if (value_block == 0) shared.value_ring().wait_empty(tile_count);
      store_block<C.value_part()>(x, shared.value[slot][0] + value_block * (C.keys * 128), lost);
      if (value_block == C.value_blocks() - 1) publish(shared.value_full[slot]);
    }
  }

  // Whoever was told of this slot before is done with it: the Q of two tasks ago has been released since.
  __device__ void make_known(const Task& task) {
    const unsigned slot = task_count++ % kTasks;
    if (ptx::thread_x() % 128 == 0) {
      shared.task[slot] = task;
      shared.lost[slot] = 0;
      shared.task_there[slot].arrive();
    }
    ptx::named_sync(kProducerThreads, 128);  // nobody says that something is lost before that
  }

  __device__ void run() {
    for (sm90::Tiles tiles(p.schedule); !tiles.done(); tiles.advance()) {
      at = tiles.index();
      fill(tile::block_view<float>(p.problem, at.batch, at.head));
    }
    make_known({{-1, 0, 0}, {0, 0}});
  }

  __device__ void fill(const tile::BlockView<float>& view) {
    const KeyTiles range = key_tiles<C>(keys_of(view, at.row_tile * C.rows(), C.rows()));
    const int last = range.first + range.count - 1;
    make_known({at, range});
    KeyPiece piece[2];
    {
      QueryPiece query[2];
      load_query(query[0], view, 0);
#pragma unroll
      for (int n = 0; n < kQueryBlocks; ++n) {
        if (n + 1 < kQueryBlocks) {
          load_query(query[(n + 1) % 2], view, n + 1);
        } else if (range.count > 0) {
          load_tile(piece[0], view, last, 0);
        }
        store_query(query[n % 2], n);
      }
    }
#pragma unroll 1
    for (int t = last; t >= range.first; --t) {
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        if (n + 1 < kBlocks) {
          load_tile(piece[(n + 1) % 2], view, t, n + 1);
        } else if (t > range.first) {
          load_tile(piece[0], view, t - 1, 0);
        }
        store_tile(piece[n % 2], n);
      }
      ++tile_count;
    }
  }
};

}  // namespace tessera::cuda::sm90_f32
