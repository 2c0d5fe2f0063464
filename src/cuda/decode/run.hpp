// Which units a block takes: found on the device, because only there the entries' lengths are known.
#pragma once

#include "cuda/decode/params.hpp"
#include "cuda/decode/pieces.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::decode {

// One entry of the batch, as all of its sequences share it.
struct Entry {
  int first_tile, tiles;  // key tiles that some row of it sees
  Cut cut;
  int sequences;

  __device__ int units(bool chains) const { return cut.units(chains) * sequences; }
  __device__ long long length(bool chains) const {
    return static_cast<long long>(units(chains)) * cut.cost(chains);
  }
};

__device__ inline Entry entry_of(const DecodeParams& d, int batch) {
  const Params& p = d.problem;
  const tile::Sequence sequence{p, batch};
  const tile::KeyRange range = tile::key_range(sequence.band(), 0, max(sequence.queries() - 1, 0));
  Entry e;
  e.first_tile = range.begin / kTileKeys;
  e.tiles = range.end > range.begin ? ceil_divide(range.end, kTileKeys) - e.first_tile : 0;
  e.sequences = p.sizes.kv_heads * d.row_tiles;
  e.cut = cut(e.tiles, d.most_pieces);
  return e;
}

// Where in the workspace a block leaves the units of a sequence of which it has a part; `begins`: the first
// one among them.
__device__ inline long long first_slot(const DecodeParams& d, int block, bool begins) {
  return (2ll * block + (begins ? 1 : 0)) * d.region;
}

// An entry and where it begins on the line.
struct Place {
  int batch;
  long long start;
};

// Shared memory for the search; free again after the next barrier.
struct Search {
  static constexpr int kMostWarps = 4;
  struct PerWarp {
    long long all[2], longest[2];
  } warps[kMostWarps];
  Place found;
};

// The row of entries that a thread adds up.
struct Share {
  int first, end;
};
template <int kThreads>
__device__ inline Share share_of(int entries) {
  const int per_thread = ceil_divide(entries, kThreads), first = static_cast<int>(threadIdx.x) * per_thread;
  return {min(first, entries), min(first + per_thread, entries)};
}

// Of all entries; before[kind]: the length of those before this thread's share.
template <int kThreads>
__device__ inline Lengths add_up(const DecodeParams& d, const Share& share, Search* search,
                                 long long (&before)[2]) {
  static_assert(kThreads % 32 == 0 && kThreads / 32 <= Search::kMostWarps);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  long long mine[2] = {0, 0}, upto[2], longest[2] = {0, 0};
  for (int b = share.first; b < share.end; ++b) {
    const Entry entry = entry_of(d, b);
#pragma unroll
    for (int kind = 0; kind < 2; ++kind) {
      mine[kind] += entry.length(kind != 0);
      longest[kind] = max(longest[kind], static_cast<long long>(entry.cut.cost(kind != 0)));
    }
  }
#pragma unroll
  for (int kind = 0; kind < 2; ++kind) {
    upto[kind] = mine[kind];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const long long other = __shfl_up_sync(0xffffffffu, upto[kind], step);
      if (lane >= step) upto[kind] += other;
      longest[kind] = max(longest[kind], __shfl_xor_sync(0xffffffffu, longest[kind], step));
    }
    if (lane == 31) {
      search->warps[warp].all[kind] = upto[kind];
      search->warps[warp].longest[kind] = longest[kind];
    }
  }
  __syncthreads();
  Lengths lengths{};
#pragma unroll
  for (int kind = 0; kind < 2; ++kind) {
    before[kind] = upto[kind] - mine[kind];
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) {
      const Search::PerWarp& other = search->warps[w];
      if (w < warp) before[kind] += other.all[kind];
      lengths.all[kind] += other.all[kind];
      lengths.longest[kind] = max(lengths.longest[kind], other.longest[kind]);
    }
  }
  return lengths;
}

// Entries without lengths are all alike.
__device__ inline Line line_of_alike(const DecodeParams& d, const Entry& entry) {
  Lengths lengths;
#pragma unroll
  for (int kind = 0; kind < 2; ++kind) {
    lengths.all[kind] = entry.length(kind != 0) * d.problem.sizes.batch;
    lengths.longest[kind] = entry.cut.cost(kind != 0);
  }
  return line_of(lengths, d.blocks, true);
}

// The line, and the entry on it with which `block` begins.
template <int kThreads>
__device__ inline Line find_first(const DecodeParams& d, int block, Search* search, Place* place) {
  if (!tile::has_key_lengths(d.problem)) {
    const Entry entry = entry_of(d, 0);
    const Line line = line_of_alike(d, entry);
    const long long each = entry.length(line.chains);
    place->batch = static_cast<int>(divide(line.first_of(block), each));
    place->start = place->batch * each;
    return line;
  }
  const Share share = share_of<kThreads>(d.problem.sizes.batch);
  long long before[2];
  const Line line = line_of(add_up<kThreads>(d, share, search, before), d.blocks, false);
  long long start = line.chains ? before[1] : before[0];
  const long long at = line.first_of(block);
  for (int b = share.first; b < share.end && start <= at; ++b) {
    const long long next = start + entry_of(d, b).length(line.chains);
    if (at < next) search->found = {b, start};
    start = next;
  }
  __syncthreads();
  *place = search->found;
  return line;
}

// The line, and where `batch` begins on it.
template <int kThreads>
__device__ inline Line find_entry(const DecodeParams& d, int batch, Search* search, long long* start) {
  if (!tile::has_key_lengths(d.problem)) {
    const Entry entry = entry_of(d, 0);
    const Line line = line_of_alike(d, entry);
    *start = entry.length(line.chains) * batch;
    return line;
  }
  const Share share = share_of<kThreads>(d.problem.sizes.batch);
  long long before[2];
  const Line line = line_of(add_up<kThreads>(d, share, search, before), d.blocks, false);
  long long at = line.chains ? before[1] : before[0];
  for (int b = share.first; b < share.end && b <= batch; ++b) {
    if (b == batch) search->found = {b, at};
    at += entry_of(d, b).length(line.chains);
  }
  __syncthreads();
  *start = search->found.start;
  return line;
}

}  // namespace tessera::cuda::decode
