// The kernels for problems with too few rows to fill the GPU: a block has 64 query rows, or 32, and its
// warpgroups share the keys instead of the rows: warpgroup w takes key tiles w, w + W, w + 2 W, ... Each asks
// TMA for its own tiles; nothing is handed from one to another until the end, where the partial
// results are merged in shared memory, always in the same order. Bands, key lengths and sinks; no other
// options.
//
//   warpgroup 0 | Q K0 V0 asked for | S = Q K0 | softmax | O = P V0 | tile W ... | merge, first columns out
//   warpgroup 1 |   K1 V1 asked for | S = Q K1 | softmax | O = P V1 | ...        | merge, last columns out
//
// Such a kernel is over in a few microseconds, most of them steps of which each waits for the one before. So
// what can be is done while something else is under way: where the output goes is worked out while the first
// copies are, the next scores and the first half of O = P V0 are computed under the softmax of the rest of
// tile 0, and the warpgroups tell each other of their rows under the last product.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/ptx/tma.hpp"
#include "cuda/sm90/epilogue.hpp"
#include "cuda/sm90/mask.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/products.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

template <SplitConfig C>
struct SplitShared {
  alignas(1024) char query[C.query_bytes()];
  alignas(1024) char key[C.warpgroups][C.stages][C.key_bytes()];
  alignas(1024) char value[C.warpgroups][C.stages][C.value_bytes()];
  Pairs<C.thread_rows()> output[C.warpgroups][C.value_dim / 8][128];  // partial results of every thread
  float2 rows[C.warpgroups][2][128];                                  // row max and sum
  tile::Barrier query_full;
  tile::Barrier key_full[C.warpgroups][C.stages], value_full[C.warpgroups][C.stages];
};

template <SplitConfig C, class T>
struct SplitBlock {
  const Sm90Params& p;
  SplitShared<C>& shared;
  int warpgroup, thread;  // thread of the warpgroup
  TileIndex at;
  tile::Band band;
  KeyTiles range;
  int kv_head;

  static constexpr int kThreads = C.threads();

  __device__ int first_row() const { return at.row_tile * C.rows(); }
  __device__ int tiles() const { return (range.count - warpgroup + C.warpgroups - 1) / C.warpgroups; }
  __device__ int tile_of(int i) const { return range.first + warpgroup + i * C.warpgroups; }

  // One box, or one for each warp's rows, which stand 16 apart.
  __device__ void load_query() const {
    if constexpr (C.warp_rows() == 16) {
      copy_tile(shared.query, C.blocks(), 64, &p.query, shared.query_full, first_row(), at.head, at.batch);
    } else {
      shared.query_full.expect(C.blocks() * C.rows() * 128);
      for (int b = 0; b < C.blocks(); ++b)
        for (int w = 0; w < 4; ++w)
          ptx::tma_load(ptx::shared_address(shared.query + (64 * b + 16 * w) * 128), &p.query,
                        shared.query_full.address(), 64 * b, first_row() + w * C.warp_rows(), at.head,
                        at.batch);
    }
  }
  __device__ void load_key(int i) const {
    copy_tile(shared.key[warpgroup][i % C.stages], C.blocks(), C.keys, &p.key,
              shared.key_full[warpgroup][i % C.stages], tile_of(i) * C.keys, kv_head, at.batch);
  }
  __device__ void load_value(int i) const {
    copy_tile(shared.value[warpgroup][i % C.stages], C.value_blocks(), C.keys, &p.value,
              shared.value_full[warpgroup][i % C.stages], tile_of(i) * C.keys, kv_head, at.batch);
  }

  // The leader of each warpgroup: its own barriers, and at once the first copies.
  __device__ void start_barriers() const {
    if (warpgroup == 0) shared.query_full.init(1);
    for (int s = 0; s < C.stages; ++s) {
      shared.key_full[warpgroup][s].init(1);
      shared.value_full[warpgroup][s].init(1);
    }
    ptx::barrier_init_fence();
  }
  __device__ void start_copies() const {
    if (warpgroup == 0) load_query();
    for (int i = 0; i < C.stages && i < tiles(); ++i) load_key(i);
    for (int i = 0; i < C.stages && i < tiles(); ++i) load_value(i);
  }

  // When all four warps are done with a slot, the leader asks for what comes into it next.
  template <class Load>
  __device__ void refill(int i, Load load) const {
    if (i + C.stages >= tiles()) return;
    ptx::named_sync(kTurnOf + warpgroup, 128);
    if (thread == 0) load(i + C.stages);
  }

  __device__ void start_scores(Scores<C>& s, int i) const {
    const int slot = i % C.stages;
    shared.key_full[warpgroup][slot].wait(i / C.stages & 1);
    sm90::start_scores<C, T>(s, query_matrix(shared.query), tile_matrix<C>(shared.key[warpgroup][slot]));
  }
  // A tile of V, when it is there.
  __device__ ptx::MatrixDescriptor await_value(int i) const {
    const int slot = i % C.stages;
    shared.value_full[warpgroup][slot].wait(i / C.stages & 1);
    return tile_matrix<C>(shared.value[warpgroup][slot]);
  }
  __device__ void mask(Scores<C>& s, int i, int2 unmasked) const {
    if (const int tile = tile_of(i); tile < unmasked.x || tile >= unmasked.y)
      hide_by_position<C>(s, p.problem, at, first_row(), tile);
  }

  // The first tile: the product of its first keys and the next scores run under the exponentials of the rest.
  template <bool kMore>
  __device__ void take_first(Scores<C>& next, int2 unmasked, RowState& rows, Output<C>& o) const {
    constexpr int kHalf = C.keys / 2, kRows = C.thread_rows();
    const float factor = p.problem.scoring.scale_log2;
    Scores<C> s;
    Probs<C> probs;
    float rest[2];
    start_scores(s, 0);
    ptx::wgmma_wait<0>();
    ptx::pin(s);
    mask(s, 0, unmasked);
    tile::start_row_max<kChains, kRows>(s, rows, factor);
    tile::exponentiate<T, kRows, 0, kHalf / 8>(probs, s, rows, factor, rows.sum);
    const ptx::MatrixDescriptor value = await_value(0);
    start_output<C, T, 0, kHalf, false>(o, probs, value);
    if constexpr (kMore) start_scores(next, 1);
    tile::exponentiate<T, kRows, kHalf / 8, C.keys / 8>(probs, s, rows, factor, rest);
    start_output<C, T, kHalf, C.keys>(o, probs, value);
    tile::add_sums<kRows>(rows, rest);
  }
  // Any other, when its scores are there and no product is under way.
  __device__ void take(int i, Scores<C>& s, int2 unmasked, RowState& rows, Output<C>& o) const {
    const float factor = p.problem.scoring.scale_log2;
    Probs<C> probs;
    mask(s, i, unmasked);
    if (!continue_softmax<C, T>(probs, s, rows, factor)) {
      float shrink[2];
      grown_softmax<C, T>(probs, s, rows, factor, shrink);
      tile::scale_rows<C.thread_rows()>(o, shrink);
    }
    start_output<C, T>(o, probs, await_value(i));
  }

  // One tile, more, or none: paths of their own, because the compiler makes products wait that may be left
  // out.
  __device__ void attend(RowState& rows, Output<C>& o) const {
    const int last = tile::Sequence{p.problem, at.batch}.queries() - 1, count = tiles();
    const int2 unmasked = unmasked_tiles<C>(
        tile::key_range(band, min(first_row(), last), min(first_row() + C.rows() - 1, last)));
    shared.query_full.wait(0);
    if (count > 1) {
      Scores<C> second;
      take_first<true>(second, unmasked, rows, o);
      ptx::wgmma_wait<0>();
      ptx::pin(second);
      refill(0, [&](int n) { load_key(n); });
      refill(0, [&](int n) { load_value(n); });
      refill(1, [&](int n) { load_key(n); });
      take(1, second, unmasked, rows, o);
      for (int i = 2; i < count; ++i) {
        Scores<C> s;
        start_scores(s, i);
        ptx::wgmma_wait<0>();
        ptx::pin(s);
        refill(i - 1, [&](int n) { load_value(n); });
        refill(i, [&](int n) { load_key(n); });
        take(i, s, unmasked, rows, o);
      }
      exchange_rows(rows);
      ptx::wgmma_wait<0>();
      ptx::pin(o);
    } else if (count == 1) {
      Scores<C> none;
      take_first<false>(none, unmasked, rows, o);
      exchange_rows(rows);
      ptx::wgmma_wait<0>();
      ptx::pin(o);
    } else {
      exchange_rows(rows);
      tile::clear(o);
    }
  }

  // All warpgroups learn of each other's rows, under the last product.
  __device__ void exchange_rows(RowState& rows) const {
    tile::join_sums<C.thread_rows()>(rows);
#pragma unroll
    for (int r = 0; r < C.thread_rows(); ++r)
      shared.rows[warpgroup][r][thread] = make_float2(rows.row_max[r], rows.sum[r]);
    meet();
  }
  // Not __syncthreads: the warpgroups may come here by different ways.
  __device__ static void meet() { ptx::named_sync(kTurnOf + C.warpgroups, kThreads); }

  // The thread's rows, from all warpgroups.
  __device__ tile::SoftmaxState whole_row(int r) const {
    float2 theirs[C.warpgroups];
    tile::SoftmaxState state = tile::empty_softmax();
#pragma unroll
    for (int w = 0; w < C.warpgroups; ++w) {
      theirs[w] = shared.rows[w][r][thread];
      state.row_max = fmaxf(state.row_max, theirs[w].x);
    }
#pragma unroll
    for (int w = 0; w < C.warpgroups; ++w)
      state.sum = fmaf(theirs[w].y, ptx::exp2_approx(theirs[w].x - state.row_max), state.sum);
    return state;
  }

  // Every warpgroup finishes an equal share of the columns: it leaves its partial results of all other
  // columns in shared memory, meets the others there, and takes theirs in.
  static constexpr int kShare = C.value_dim / 8 / C.warpgroups;  // groups of 8 columns
  static_assert(kShare % 4 == 0);

  __device__ void leave_partial(const Output<C>& o) const {
#pragma unroll
    for (int n = 0; n < C.value_dim / 8; ++n)
      if (n / kShare != warpgroup) shared.output[warpgroup][n][thread] = pairs_of<C.thread_rows()>(o, n);
    if constexpr (C.thread_rows() == 1) {  // what no row is made of is to be read all the same: exponentiate
      unsigned rest = 0;
#pragma unroll
      for (int n = 0; n < C.value_dim / 8; ++n) rest ^= __float_as_uint(o[n][2]) ^ __float_as_uint(o[n][3]);
      shared.rows[warpgroup][1][thread].x = __uint_as_float(rest);
    }
  }

  // Columns 8 n ... 8 n + 7 of the warpgroup's share, from all warpgroups, in the same order always.
  __device__ Pairs<C.thread_rows()> merged(const Output<C>& o, int n) const {
    Pairs<C.thread_rows()> x;
#pragma unroll
    for (int w = 0; w < C.warpgroups; ++w) {
      // Its own from registers, which cannot be indexed by the warpgroup: w says which there would be.
      const Pairs<C.thread_rows()> y = w == warpgroup ? pairs_of<C.thread_rows()>(o, w * kShare + n)
                                                      : shared.output[w][warpgroup * kShare + n][thread];
#pragma unroll
      for (int r = 0; r < C.thread_rows(); ++r)
        x.of[r] = w == 0 ? y.of[r] : make_float2(x.of[r].x + y.of[r].x, x.of[r].y + y.of[r].y);
    }
    return x;
  }

  __device__ void run() const {
    const tile::BlockView<T> view = tile::block_view<T>(p.problem, at.batch, at.head);
    const int lane = thread % 32, row = first_row() + thread / 32 * C.warp_rows() + lane / 4;
    RowEnds<T, C.thread_rows()> ends(p.problem, view, row, at.head);
    ends.out = ptx::opaque(ends.out);  // now, while Q and K are on their way
    ends.stride = ptx::opaque(ends.stride);
    RowState rows = tile::empty_rows();
    Output<C> o;
    attend(rows, o);

    tile::SoftmaxState state[C.thread_rows()];
    float factor[2];
#pragma unroll
    for (int r = 0; r < C.thread_rows(); ++r) {
      state[r] = whole_row(r);
      factor[r] = ptx::exp2_approx(rows.row_max[r] - state[r].row_max);
    }
    ends.end(p.problem, at.head, state);
#pragma unroll
    for (int r = 0; r < C.thread_rows(); ++r) factor[r] *= ends.inverse[r];
    tile::scale_rows<C.thread_rows()>(o, factor);
    leave_partial(o);
    __syncthreads();
    ends.template write_all<8 * kShare>(8 * kShare * warpgroup, lane, [&](int n) { return merged(o, n); });
    if (warpgroup == 0 && lane % 4 == 0) ends.write_lse(p.problem, view, row, at.head, state);
    if (__syncthreads_or(static_cast<int>(ends.suspect())) == 0) return;
    constexpr int kRows = C.rows() * 32 / kThreads;  // of a warp
    const int first = first_row() + static_cast<int>(threadIdx.x) / 32 * kRows;
    recompute_suspects<T>(p.problem, at, first, first + kRows);
  }
};

// Grid: row tiles, heads, batch entries.
template <SplitConfig C, class T>
__device__ inline void attend_split_block(const Sm90Params& p, char* memory) {
  SplitShared<C>& shared = *reinterpret_cast<SplitShared<C>*>(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  ptx::launch_dependents();
  SplitBlock<C, T> block{p, shared, warpgroup, static_cast<int>(threadIdx.x) % 128};
  if (block.thread == 0) {
    ptx::prefetch_tensor_map(&p.query);
    ptx::prefetch_tensor_map(&p.key);
    ptx::prefetch_tensor_map(&p.value);
    block.start_barriers();
  }
  block.at = {static_cast<int>(p.problem.longest_first != 0 ? gridDim.x - 1 - blockIdx.x : blockIdx.x),
              static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
  block.kv_head = p.group.divide(block.at.head);
  if (tile::reads_lengths(p.problem)) ptx::wait_for_dependencies();
  const tile::Sequence sequence{p.problem, block.at.batch};
  block.band = sequence.band();
  block.range = key_tiles<C>(block.band, sequence.queries(), block.at.row_tile);
  ptx::wait_for_dependencies();
  if (block.thread == 0) block.start_copies();
  __syncthreads();
  block.run();
}

}  // namespace tessera::cuda::sm90
