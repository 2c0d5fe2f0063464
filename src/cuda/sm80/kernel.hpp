// The production kernel for GPUs with mma.sync and cp.async (sm_80 and newer).
//
//   block: one tile of query rows of one (batch, head or pack of heads)
//
//   copies   | Q K0 | K1 V0 | K2 V1 | ...          cp.async, C.stages slots each for K and V
//   tile i   | barrier | start K(i+s) V(i+s-1) | rescale O if needed
//            | S(i+1) = Q K(i+1)   beside   P(i) = exp2(S(i))      (C.overlap: in one stretch of code)
//            | O += P(i) V(i)      beside   a look at S(i+1)
//
// One barrier a tile: it says both that the copies for this tile have landed and that everyone is done with
// the slots that are filled next.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm80/epilogue.hpp"
#include "cuda/sm80/visible.hpp"
#include "cuda/tile/score.hpp"

namespace tessera::cuda::sm80 {

// Which tile a block is at, asked again whenever it is needed: the loop has no register to keep it in.
// Grid: row tiles, packs of heads, batch entries. The row tiles of one head run side by side and share its
// K and V in L2; where the last of them sees most keys it comes first, so that none is left over at the end.
struct GridTile {
  __device__ int row_tile(const Params& p) const {
    return p.longest_first != 0 ? static_cast<int>(gridDim.x) - 1 - ptx::block_x() : ptx::block_x();
  }
  __device__ int pack_index(const Params&) const { return ptx::block_y(); }
  __device__ int batch(const Params&) const { return ptx::block_z(); }
  __device__ static int first_column(const Params&) { return 0; }  // of the value columns it computes
  template <class T>
  __device__ static tile::BlockView<T> view(const Params& p, int batch, int pack_index) {
    return tile::block_view<T>(p, batch, pack_index);
  }
};

// The same where a row has more value columns than registers hold: kColumns of them a block, and the parts
// of a row tile beside each other in the grid. Each computes all scores.
template <int kColumns>
struct PartTile : GridTile {
  __device__ static int parts(const Params& p) { return (p.sizes.value_dim + kColumns - 1) / kColumns; }
  __device__ int row_tile(const Params& p) const { return GridTile::row_tile(p) / parts(p); }
  __device__ static int first_column(const Params& p) { return ptx::block_x() % parts(p) * kColumns; }
};

// Policy: what happens to scores (tile/score.hpp). kRows: how rows lie in memory (loads.hpp).
template <Config C, class T, class Policy, Rows kRows>
struct Block {
  const Params& p;
  const tile::BlockView<T>& view;
  unsigned shared;  // the query tile's address; the ring follows
  Lanes<C> lanes;
  TileWalk<T, C.dim, C.tile_keys(), C.threads(), kRows, C.query_in_registers> keys;
  TileWalk<T, C.value_dim, C.tile_keys(), C.threads(), kRows, C.query_in_registers> values;
  int first_row, first_column;  // of the block
  int length;                   // keys from the first tile's start to the last one seen
  typename Policy::Factor factor;

  __device__ Block(const Params& params, const tile::BlockView<T>& block_view, const tile::KeyRange& range,
                   int row, int column, unsigned memory)
      : p(params),
        view(block_view),
        shared(memory),
        lanes(memory),
        keys(view.key, p.kv.key.strides.row, first_tile_key<C>(range)),
        values(view.value + column, p.kv.value.strides.row, first_tile_key<C>(range)),
        first_row(row),
        first_column(column),
        length(range.end - first_tile_key<C>(range)),
        factor{Policy::factor(p)} {}

  __device__ void start_query() const {
    load_rows<T, C.dim, C.rows(), C.threads(), kRows>(
        shared, p.sizes.dim, first_row, view.rows,
        [&](int row) { return tile::query_row(p, view, view.index(row)); });
  }
  __device__ void start_key(int t) {
    const int end = length - t * C.tile_keys();
    if (end > 0)
      keys.load_next(shared + C.query_bytes() + t % C.stages * C.key_bytes(), p.sizes.dim,
                     p.kv.key.strides.row, end);
  }
  __device__ void start_value(int t) {
    const int end = length - t * C.tile_keys();
    if (end > 0)
      values.load_next(shared + C.query_bytes() + C.stages * C.key_bytes() + t % C.stages * C.value_bytes(),
                       p.sizes.value_dim - first_column, p.kv.value.strides.row, end);
  }
  __device__ static bool needs_mask(int t, int2 unmasked) {
    return Policy::kEveryTile || partly_visible(t, unmasked);
  }

  __device__ void mask(Scores<C>& s, int t) const {
    mask_scores<C, Policy>(s, p, view, shared, first_row, t);
  }

  // Tile i: see the top. kLast: there is no next tile. kMaskNext: the next one needs masking.
  template <bool kLast, bool kMaskNext>
  __device__ void step(int i, Scores<C>& s, RowState<C>& rows, Output<C>& o, const Query<C>& q, bool& grew) {
    ptx::wait_copies<C.stages - 2>();
    __syncthreads();
    if constexpr (!kLast) {
      start_key(i + C.stages);
      start_value(i + C.stages - 1);
    }
    ptx::commit_copies();
    if (grew) rescale<C>(rows, o, factor);
    Probs<C> probs;
    if constexpr (kLast) {
      take_probs<C, T>(probs, s, rows, o, factor);
      multiply_probs_value<C, T>(o, probs, lanes.value_of(i));
    } else if constexpr (C.overlap) {
      Scores<C> next;
      multiply_query_key<C, T>(next, q, lanes.query, lanes.key_of(i + 1));
      take_probs<C, T>(probs, s, rows, o, factor);
      if constexpr (kMaskNext) mask(next, i + 1);
      grew = look_at<C>(next, rows, factor);
      multiply_probs_value<C, T>(o, probs, lanes.value_of(i));
#pragma unroll
      for (int m = 0; m < C.row_tiles; ++m)
#pragma unroll
        for (int n = 0; n < C.keys / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) s[m][n][e] = next[m][n][e];
    } else {
      take_probs<C, T>(probs, s, rows, o, factor);
      multiply_probs_value<C, T>(o, probs, lanes.value_of(i));
      multiply_query_key<C, T>(s, q, lanes.query, lanes.key_of(i + 1));
      if constexpr (kMaskNext) mask(s, i + 1);
      grew = look_at<C>(s, rows, factor);
    }
  }

  __device__ void attend(const tile::KeyRange& range, RowState<C>& rows, Output<C>& o) {
    start_query();
    start_key(0);
    ptx::commit_copies();
#pragma unroll
    for (int i = 0; i < C.stages - 1; ++i) {
      start_key(i + 1);
      start_value(i);
      ptx::commit_copies();
    }
    write_visible<C>(shared, view, range, first_row);
    ptx::wait_copies<C.stages - 1>();
    __syncthreads();
    Query<C> q;
    if constexpr (C.query_in_registers) {
#pragma unroll
      for (int m = 0; m < C.row_tiles; ++m)
#pragma unroll
        for (int k = 0; k < C.dim / 16; ++k)
          ptx::load_matrix_x4(q[m][k], fragment_address<C.dim>(lanes.query, 16 * m, k));
    }
    Scores<C> s;
    multiply_query_key<C, T>(s, q, lanes.query, lanes.key_of(0));
    start_rows<C>(rows, o);  // not before: the copies above need registers too
    const int2 unmasked = ptx::load_shared_8(shared + C.unmasked_offset());
    if (needs_mask(0, unmasked)) mask(s, 0);
    bool grew = look_at_first<C>(s, rows, factor);
    int i = 0;
    for (; (i + 1) * C.tile_keys() < length; ++i) {
      if (needs_mask(i + 1, unmasked)) {
        step<false, true>(i, s, rows, o, q, grew);
      } else {
        step<false, false>(i, s, rows, o, q, grew);
      }
    }
    step<true, false>(i, s, rows, o, q, grew);
  }
};

template <Config C, class T, class Policy, Rows kRows, class WhichTile>
__device__ inline void attend_tile(const Params& p, char* shared, WhichTile tile_at) {
  RowState<C> rows;
  Output<C> o;
  {
    const tile::BlockView<T> view = tile_at.template view<T>(p, tile_at.batch(p), tile_at.pack_index(p));
    const int first_row = tile_at.row_tile(p) * C.rows(), last_row = min(first_row + C.rows(), view.rows) - 1;
    const tile::KeyRange range =
        tile::key_range(view.band, view.query_of(first_row), view.query_of(last_row));
    Block<C, T, Policy, kRows> block(p, view, range, first_row, tile_at.first_column(p),
                                     ptx::shared_address(shared));
    if (block.length > 0) {
      block.attend(range, rows, o);
    } else {
      start_rows<C>(rows, o);
    }
  }
#pragma unroll
  for (int m = 0; m < C.row_tiles; ++m) tile::join_sums(rows.tiles[m]);
  if constexpr (C.key_splits > 1) {
    __syncthreads();  // the ring is free now
    merge_splits<C>(rows, o, reinterpret_cast<float*>(shared + C.query_bytes()));
    if (ptx::thread_x() / 32 >= C.row_warps) return;
  }
  if constexpr (Policy::kMaskTensor) {
#pragma unroll
    for (int m = 0; m < C.row_tiles; ++m) tile::end_row_max(rows.tiles[m], {Policy::factor(p)});
  }
  const int pack_index = tile_at.pack_index(p);
  write_rows<C, T, kRows>(p, tile_at.template view<T>(p, tile_at.batch(p), pack_index), pack_index, rows, o,
                          shared, tile_at.row_tile(p) * C.rows(), tile_at.first_column(p));
}

}  // namespace tessera::cuda::sm80
