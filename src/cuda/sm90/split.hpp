// The kernel for problems with too few rows to fill the GPU: a block has 64 query rows, and its warpgroups
// share the keys instead of the rows: warpgroup w takes key tiles w, w + W, w + 2 W, ... Each asks the copy
// engine for its own tiles; nothing is handed from one to another until the end, where the partial results
// are merged in shared memory, always in the same order. Bands, key lengths and sinks; no other options.
//
//   warpgroup 0 | Q K0 V0 asked for | S = Q K0 | softmax | O += P V0 | tile W ... | merge, first columns out
//   warpgroup 1 |   K1 V1 asked for | S = Q K1 | softmax | O += P V1 | ...        | merge, last columns out
#pragma once

#include "cuda/ptx/dependent_launch.hpp"
#include "cuda/ptx/tensor_copy.hpp"
#include "cuda/sm90/epilogue.hpp"
#include "cuda/sm90/mask.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/sm90/products.hpp"
#include "cuda/sm90/shared.hpp"
#include "cuda/sm90/softmax.hpp"
#include "cuda/sm90/walk.hpp"

namespace tessera::cuda::sm90 {

template <Config C>
struct SplitShared {
  alignas(1024) char query[C.query_bytes()];
  alignas(1024) char key[C.consumers][C.stages][C.key_bytes()];
  alignas(1024) char value[C.consumers][C.stages][C.value_bytes()];
  float4 output[C.consumers][C.value_dim / 8][128];  // partial results of every thread
  float2 rows[C.consumers][2][128];                  // reference and sum
  unsigned long long query_full;
  unsigned long long key_full[C.consumers][C.stages], value_full[C.consumers][C.stages];
};

template <Config C, class T>
struct SplitBlock {
  const Sm90Params& p;
  SplitShared<C>& shared;
  int warpgroup, thread;  // thread of the warpgroup
  Place at;
  tile::Band band;
  KeyTiles range;
  int kv_head;

  static constexpr int kThreads = 128 * C.consumers;

  __device__ int tiles() const { return (range.count - warpgroup + C.consumers - 1) / C.consumers; }
  __device__ int tile_of(int i) const { return range.first + warpgroup + i * C.consumers; }

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
    if (warpgroup == 0) ptx::barrier_init(ptx::shared_address(&shared.query_full), 1);
    for (int s = 0; s < C.stages; ++s) {
      ptx::barrier_init(ptx::shared_address(&shared.key_full[warpgroup][s]), 1);
      ptx::barrier_init(ptx::shared_address(&shared.value_full[warpgroup][s]), 1);
    }
    ptx::barrier_init_fence();
  }
  __device__ void start_copies() const {
    if (warpgroup == 0)
      copy_tile(shared.query, C.blocks(), 64, &p.query, shared.query_full, at.row_tile * 64, at.head,
                at.batch);
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

  __device__ void wait_value(int slot, unsigned parity) const {
    ptx::barrier_wait(ptx::shared_address(&shared.value_full[warpgroup][slot]), parity);
  }

  __device__ void attend(Rows& rows, Output<C>& o) const {
    const float factor = p.problem.scale_log2;
    const int first_row = at.row_tile * 64, last = p.problem.queries - 1;
    const int2 unmasked = unmasked_tiles<C>(band, min(first_row, last), min(first_row + 63, last));
    ptx::barrier_wait(ptx::shared_address(&shared.query_full), 0);
    for (int i = 0; i < tiles(); ++i) {
      const int slot = i % C.stages, tile = tile_of(i);
      const unsigned parity = i / C.stages & 1;
      Scores<C> s;
      Weights<C> w;
      ptx::barrier_wait(ptx::shared_address(&shared.key_full[warpgroup][slot]), parity);
      start_scores<C, T>(s, ptx::shared_address(shared.query),
                         ptx::shared_address(shared.key[warpgroup][slot]));
      ptx::wgmma_wait<0>();
      if (i > 0) refill(i - 1, [&](int n) { load_value(n); });
      refill(i, [&](int n) { load_key(n); });
      if (tile < unmasked.x || tile >= unmasked.y)
        mask_scores<C, T, false>(s, p.problem, at, first_row, tile);
      const unsigned value = ptx::shared_address(shared.value[warpgroup][slot]);
      if (i == 0) {
        // The product of the first keys runs under the exponentials of the rest.
        constexpr int kHalf = C.keys / 2;
        float rest[2];
        start_rows<C>(s, rows, factor);
        exponentiate<C, T, 0, kHalf>(w, s, rows, factor, rows.sum);
        wait_value(slot, parity);
        start_output<C, T, 0, kHalf>(o, w, value);
        exponentiate<C, T, kHalf, C.keys>(w, s, rows, factor, rest);
        start_output<C, T, kHalf, C.keys>(o, w, value);
        rows.sum[0] += rest[0];
        rows.sum[1] += rest[1];
      } else {
        float shrink[2];
        if (!continue_softmax<C, T>(w, s, rows, factor)) {
          grown_softmax<C, T>(w, s, rows, factor, shrink);
          rescale<C>(o, shrink);
        }
        wait_value(slot, parity);
        start_output<C, T>(o, w, value);
      }
    }
    ptx::wgmma_wait<0>();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 1);
      rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 2);
    }
  }

  // Every warpgroup finishes an equal share of the columns: it leaves its partial results of all other
  // columns in shared memory, meets the others there, and takes theirs in, in the same order always.
  static constexpr int kShare = C.value_dim / 8 / C.consumers;  // groups of 8 columns
  static_assert(kShare % 4 == 0);
  __device__ static bool in_share(int n, int w) { return n / kShare == w; }

  __device__ void leave_partial(const Rows& rows, const Output<C>& o) const {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      shared.rows[warpgroup][r][thread] = make_float2(rows.reference[r], rows.sum[r]);
#pragma unroll
    for (int n = 0; n < C.value_dim / 8; ++n)
      if (!in_share(n, warpgroup))
        shared.output[warpgroup][n][thread] = make_float4(o[4 * n], o[4 * n + 1], o[4 * n + 2], o[4 * n + 3]);
  }

  // Columns 8 n ... 8 n + 7 of the warpgroup's share, from all warpgroups.
  __device__ float4 merged(const Output<C>& o, const float (&factor)[C.consumers][2], int n) const {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < C.consumers; ++w) {
      // Its own from registers, which cannot be indexed by the warpgroup: w says which there would be.
      const int mine = 4 * (w * kShare + n);
      const float4 y = w == warpgroup ? make_float4(o[mine], o[mine + 1], o[mine + 2], o[mine + 3])
                                      : shared.output[w][warpgroup * kShare + n][thread];
      x.x = fmaf(y.x, factor[w][0], x.x);
      x.y = fmaf(y.y, factor[w][0], x.y);
      x.z = fmaf(y.z, factor[w][1], x.z);
      x.w = fmaf(y.w, factor[w][1], x.w);
    }
    return x;
  }

  __device__ void finish(const Output<C>& o) const {
    const tile::BlockView<T> view = tile::block_view<T>(p.problem, at.batch, at.head);
    const int lane = thread % 32, row = at.row_tile * 64 + thread / 32 * 16 + lane / 4;
    RowEnds<T> ends(p.problem, view, row, at.head);
    float factor[C.consumers][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float2 theirs[C.consumers];
      tile::SoftmaxState state = {tile::kLowest, 0.0f};
#pragma unroll
      for (int w = 0; w < C.consumers; ++w) {
        theirs[w] = shared.rows[w][r][thread];
        state.reference = fmaxf(state.reference, theirs[w].x);
      }
#pragma unroll
      for (int w = 0; w < C.consumers; ++w) {
        factor[w][r] = tile::fast_exp2(theirs[w].x - state.reference);
        state.sum = fmaf(theirs[w].y, factor[w][r], state.sum);
      }
      ends.end(p.problem, view, row, at.head, r, state, warpgroup == 0 && lane % 4 == 0);
    }
    ends.template write_all<8 * kShare>(8 * kShare * warpgroup, lane,
                                        [&](int n) { return merged(o, factor, n); });
    if (__syncthreads_or(static_cast<int>(ends.suspect())) == 0) return;
    constexpr int kRows = 64 * 32 / kThreads;  // of a warp
    const int first = at.row_tile * 64 + static_cast<int>(threadIdx.x) / 32 * kRows;
    recompute_suspects<T>(p.problem, at, first, first + kRows);
  }

  __device__ void run() const {
    Rows rows = {{tile::kLowest, tile::kLowest}, {0.0f, 0.0f}};
    Output<C> o;
#pragma unroll
    for (int i = 0; i < C.value_dim / 2; ++i) o[i] = 0.0f;
    attend(rows, o);
    leave_partial(rows, o);
    __syncthreads();
    finish(o);
  }
};

// Grid: row tiles, heads, batch entries.
template <Config C, class T>
__device__ inline void attend_split_block(const Sm90Params& p, char* memory) {
  SplitShared<C>& shared = *reinterpret_cast<SplitShared<C>*>(memory);
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  ptx::let_next_kernel_start();
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
  if (tile::has_key_lengths(p.problem)) ptx::await_kernels_before();
  block.band = tile::band_of(p.problem, block.at.batch);
  block.range = key_tiles<C>(block.band, p.problem, block.at, 64);
  ptx::await_kernels_before();
  if (block.thread == 0) block.start_copies();
  __syncthreads();
  block.run();
}

}  // namespace tessera::cuda::sm90
