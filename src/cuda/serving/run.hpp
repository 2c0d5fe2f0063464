// Which pieces a block takes: found on the device, because only there the entries' lengths are known.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/serving/params.hpp"
#include "cuda/serving/pieces.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::serving {

// One entry of the batch, as all of its sequences share it.
struct Entry {
  int first_tile, tiles;  // key tiles that some row of it sees
  Cut cut;
  int row_tiles;  // of a K/V head; 0 where the entry is not for these kernels
  int sequences;

  __device__ int units() const { return cut.pieces * sequences; }
  __device__ long long length() const { return static_cast<long long>(units()) * cut.cost(); }
  // Row tiles are taken from both ends in turn: where later ones see more keys, neighbours on the line are as
  // much work together everywhere.
  __device__ int row_tile(int sequence) const {
    const int n = sequence % row_tiles;
    return n % 2 == 0 ? n / 2 : row_tiles - 1 - n / 2;
  }
};

__device__ inline Entry entry_of(const ServingParams& d, int batch) {
  const Params& p = d.problem;
  const tile::Sequence dense{p, batch};
  const tile::AnySequence sequence{p, batch};
  const int queries = d.plain != 0 ? dense.queries() : sequence.queries(), rows = queries * p.sizes.group;
  const tile::KeyRange range =
      tile::key_range(d.plain != 0 ? dense.band() : sequence.band(), 0, max(queries - 1, 0));
  Entry e;
  e.first_tile = range.begin / kTileKeys;
  e.tiles = range.end > range.begin ? ceil_divide(range.end, kTileKeys) - e.first_tile : 0;
  e.row_tiles = rows < d.least_rows || rows > d.most_rows ? 0 : max(ceil_divide(rows, d.tile_rows), 1);
  e.sequences = p.sizes.kv_heads * e.row_tiles;
  // Entries without offsets are all alike: the host has divided.
  const bool alike = d.plain != 0 || p.query_offsets.data == nullptr;
  const int share = max(e.sequences, 1);
  e.cut = cut(e.tiles, alike ? d.few_pieces : share_of_pieces(d.few_pieces, share),
              alike ? d.most_pieces : share_of_pieces(d.most_pieces, share));
  return e;
}

// What a block sees of its sequence.
template <class T>
__device__ inline tile::AnyView<T> view_of(const ServingParams& d, int batch, int pack_index) {
  if (d.plain == 0) return tile::block_view<T, true>(d.problem, batch, pack_index);
  const tile::BlockView<T> v = tile::block_view<T>(d.problem, batch, pack_index);
  return {v.query,      v.output,      v.lse,   v.key,  v.value, v.batch,
          v.first_head, v.first_query, v.pages, v.pack, v.rows,  v.band};
}

// Before memory is read that kernels before this one may still be writing: see ptx/pdl.hpp.
__device__ inline void wait_for_kernels_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  ptx::wait_for_dependencies();
#endif
}

// An entry and where it begins on the line.
struct Place {
  int batch;
  long long start;
};

// The sum of x over the block's threads before this one; *all: over all of them. `shared`: a number for each
// warp.
template <int kThreads>
__device__ inline long long sum_before(long long x, long long* shared, long long* all) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  long long upto = x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const long long other = __shfl_up_sync(0xffffffffu, upto, step);
    if (lane >= step) upto += other;
  }
  if (lane == 31) shared[warp] = upto;
  __syncthreads();
  long long before = upto - x;
  *all = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += shared[w];
    *all += shared[w];
  }
  return before;
}

// The row of entries whose lengths a thread adds up.
struct Share {
  int first, end;
};
template <int kThreads>
__device__ inline Share share_of(int entries) {
  const int per_thread = ceil_divide(entries, kThreads), first = static_cast<int>(threadIdx.x) * per_thread;
  return {min(first, entries), min(first + per_thread, entries)};
}

// The line, and the entry on it that the first point of `block` belongs to. Entries without lengths are all
// alike. `shared`: 64 bytes, free again after the next barrier.
template <int kThreads>
__device__ inline Line find_first(const ServingParams& d, int block, long long* shared, Place* place) {
  const int entries = d.problem.sizes.batch;
  Line line{0, d.blocks};
  if (d.reads_lengths == 0) {
    const long long each = entry_of(d, 0).length();
    line.length = each * entries;
    place->batch = static_cast<int>(Line::divide(line.first_of(block), each));
    place->start = place->batch * each;
    return line;
  }
  const Share share = share_of<kThreads>(entries);
  long long mine = 0;
  for (int b = share.first; b < share.end; ++b) mine += entry_of(d, b).length();
  long long before = sum_before<kThreads>(mine, shared, &line.length);
  const long long at = line.first_of(block);
  *place = {entries, line.length};
  if (at >= line.length) return line;  // it has nothing to do
  if (at >= before && at < before + mine) {
    int b = share.first;
    for (;; ++b) {
      const long long next = before + entry_of(d, b).length();
      if (at < next) break;
      before = next;
    }
    shared[6] = b;
    shared[7] = before;
  }
  __syncthreads();
  *place = {static_cast<int>(shared[6]), shared[7]};
  return line;
}

}  // namespace tessera::cuda::serving
