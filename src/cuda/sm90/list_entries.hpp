// Lists the row tiles of a ragged or paged batch, in the order in which blocks take them; by one block.
//
// Blocks that are to end at the same time want long tiles first, of all heads; L2 wants the tiles of a head
// side by side. So there are ranks. The tiles of rank 0, the longest, are listed head by head; those of the
// other ranks together are work enough to even out what these leave uneven: as much as the longest tile of
// rank 0 is, for every block. The same holds from each rank to the next. What is left behind the last rank is
// short, and listed by length alone.
//
//   one head's tiles, by length     16 15 14 13 12 11 10 9  8 7 6 5 | 4 3 | 2 1
//                                   rank 0                            1     the rest
//   the list                        a16 a15 ... a5  b16 ... b5  a4 a3 b4 b3  a2 b2 a1 b1
//
// How long a tile is, is counted in key tiles; lengths that differ by less than a 16th may share a bucket.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/sm90/entry_list.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::sm90 {

struct ListParams {
  Params problem;
  EntryList list;
  int least_queries;  // entries with fewer are not listed
  int tile_rows, tile_keys;
  int most_tiles;  // that the list has room for
  int blocks;      // that take them
};

inline constexpr int kListThreads = 512;
inline constexpr int kBuckets = 26 * 16;

struct ListShared {
  static constexpr int kKept = 64;

  int entries;            // listed
  int longest;            // tile of all
  int ranks;              // that there are
  int bound[kRanks];      // the first bucket of each
  int next[kRanks];       // where the next entry's tiles of a rank begin; in tiles of a head
  int tiles_of_head;      // in all
  int buckets[kBuckets];  // tiles of a head in each; then where the next of those without a rank is, counted
                          // in K/V heads
  ListedEntry kept[kKept];  // the first ones; others are in the workspace
};

class Lister {
 public:
  __device__ Lister(const ListParams& params, ListShared& shared) : p(params), s(shared) {}

  __device__ void run() {
    for (int b = thread(); b < kBuckets; b += kListThreads) s.buckets[b] = 0;
    if (thread() == 0) s.entries = s.longest = s.tiles_of_head = 0;
    ptx::wait_for_dependencies();
    __syncthreads();
    find_entries();
    __syncthreads();
    if (s.entries > 0) {
      count_tiles();
      __syncthreads();
      if (thread() < 32) part_ranks();
      __syncthreads();
      place_entries();
      __syncthreads();
      list_entries();
    }
    end_list();
  }

 private:
  const ListParams& p;
  ListShared& s;

  static constexpr int kWarps = kListThreads / 32;
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % 32; }
  __device__ int heads() const { return p.problem.sizes.heads; }
  __device__ int kv_heads() const { return p.problem.sizes.kv_heads; }
  __device__ ListedEntry& entry(int n) const { return n < ListShared::kKept ? s.kept[n] : p.list.entries[n]; }

  __device__ void find_entries() {
    for (int b = thread(); b < p.problem.sizes.batch; b += kListThreads) {
      const tile::AnySequence sequence{p.problem, b};
      const ListedLengths of = {b, sequence.first_query(), sequence.queries(), sequence.first_key(),
                                sequence.keys()};
      if (of.queries >= max(p.least_queries, 1)) entry(atomicAdd(&s.entries, 1)).of = of;
    }
  }

  __device__ int tiles_of(const ListedLengths& of) const {
    return (of.queries + p.tile_rows - 1) / p.tile_rows;
  }
  // In key tiles, and one for getting started.
  __device__ int length_of(const ListedLengths& of, int row_tile) const {
    const Visibility& seen = p.problem.visibility;
    const tile::Band band = {of.keys, seen.align_bottom_right != 0 ? of.keys - of.queries : 0, seen.left,
                             seen.right};
    const int first = row_tile * p.tile_rows, last = min(first + p.tile_rows, of.queries) - 1;
    const tile::KeyRange range = tile::key_range(band, first, last);
    if (range.end <= range.begin) return 2;
    return (range.end - 1) / p.tile_keys - range.begin / p.tile_keys + 2;
  }
  // By the leading bits, as a float has them: exact up to 32.
  __device__ static int bucket_of(int length) {
    return min((__float_as_int(static_cast<float>(length)) >> 19) - (127 << 4), kBuckets - 1);
  }
  __device__ static float least_length(int bucket) { return __int_as_float((bucket + (127 << 4)) << 19); }

  // Each entry by a warp.
  __device__ void count_tiles() {
    int longest = 0;
#pragma unroll 1
    for (int n = thread() / 32; n < s.entries; n += kWarps) {
      const ListedLengths of = entry(n).of;
#pragma unroll 1
      for (int r = lane(); r < tiles_of(of); r += 32) {
        const int length = length_of(of, r);
        longest = max(longest, length);
        atomicAdd(&s.buckets[bucket_of(length)], 1);
      }
    }
    longest = __reduce_max_sync(0xffffffffu, longest);
    if (lane() == 0 && longest > 0) atomicMax(&s.longest, longest);
  }

  // By one warp: a lane has buckets [lane * kOwn, lane * kOwn + kOwn).
  static constexpr int kOwn = kBuckets / 32;
  __device__ void part_ranks() {
    int count[kOwn];
    float work = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      count[i] = s.buckets[lane() * kOwn + i];
      work += static_cast<float>(count[i]) * least_length(lane() * kOwn + i);
    }
    const float up_to_lane = sum_up_to(work);
    int end = kBuckets,
        before = 0;  // the bucket before which tiles have no rank yet; tiles of a head that do
    auto longest = static_cast<float>(s.longest);
    int ranks = 0;
#pragma unroll 1
    while (ranks < kRanks) {
      const float enough = static_cast<float>(p.blocks) * longest / static_cast<float>(heads());
      const int bound = first_with(count, up_to_lane, enough);
      if (bound >= end) break;
      if (lane() == 0) s.bound[ranks] = bound, s.next[ranks] = before;
      ++ranks;
      end = bound;
      before = tiles_from(count, bound);
      longest = least_length(bound);
    }
    if (lane() == 0) s.ranks = ranks;
    place_rest(count, end, before);
  }
  __device__ static float sum_up_to(float x) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, x, static_cast<unsigned>(step));
      if (lane() >= step) x += other;
    }
    return x;
  }
  // The first bucket that, with all before it, is so much work; kBuckets if there is none.
  __device__ static int first_with(const int (&count)[kOwn], float sum, float enough) {
    int first = kBuckets;
#pragma unroll
    for (int i = kOwn - 1; i >= 0; --i) {
      if (sum >= enough) first = lane() * kOwn + i;
      sum -= static_cast<float>(count[i]) * least_length(lane() * kOwn + i);
    }
    return __reduce_min_sync(0xffffffffu, first);
  }
  __device__ static int tiles_from(const int (&count)[kOwn], int bucket) {
    int tiles = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (lane() * kOwn + i >= bucket) tiles += count[i];
    return __reduce_add_sync(0xffffffffu, tiles);
  }
  // Tiles before bucket `end`, by length: behind all that have a rank, and those of the buckets above.
  __device__ void place_rest(const int (&count)[kOwn], int end, int before) {
    int own = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (lane() * kOwn + i < end) own += count[i];
    int from_lane = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_down_sync(0xffffffffu, from_lane, static_cast<unsigned>(step));
      if (lane() + step < 32) from_lane += other;
    }
    int at = before + from_lane - own;
#pragma unroll
    for (int i = kOwn - 1; i >= 0; --i) {
      s.buckets[lane() * kOwn + i] = at * kv_heads();
      if (lane() * kOwn + i < end) at += count[i];
    }
    if (lane() == 0) s.tiles_of_head = at;
  }

  // kRanks: none.
  __device__ int rank_of(int bucket) const {
    int rank = 0;
    while (rank < s.ranks && bucket < s.bound[rank]) ++rank;
    return rank < s.ranks ? rank : kRanks;
  }
  // Of an entry how many tiles each rank has, and where in the list they begin.
  __device__ void place_entries() {
#pragma unroll 1
    for (int n = thread() / 32; n < s.entries; n += kWarps) {
      const ListedLengths of = entry(n).of;
      int tiles = 0;  // of rank `lane`
#pragma unroll 1
      for (int from = 0; from < tiles_of(of); from += 32) {
        const int r = from + lane();
        const int rank = r < tiles_of(of) ? rank_of(bucket_of(length_of(of, r))) : kRanks;
#pragma unroll
        for (int k = 0; k < kRanks; ++k) {
          const int here = __popc(__ballot_sync(0xffffffffu, rank == k));
          if (lane() == k) tiles += here;
        }
      }
      if (lane() < kRanks) {
        entry(n).tiles[lane()] = tiles;
        entry(n).first[lane()] = tiles == 0 ? 0 : atomicAdd(&s.next[lane()], tiles);
      }
    }
  }

  // Where there are fewer entries than warps, several share one: each has K/V heads of its own.
  __device__ void list_entries() {
    const int parts = min(max(kWarps / s.entries, 1), kv_heads());
#pragma unroll 1
    for (int n = thread() / 32; n < s.entries * parts; n += kWarps)
      list_entry(entry(n / parts), n % parts, parts);
  }
  __device__ void list_entry(const ListedEntry& entry, int part, int parts) {
    const ListedLengths of = entry.of;
    int longer[kRanks] = {};  // of a rank, tiles that stand before
#pragma unroll 1
    for (int from = tiles_of(of) - 1; from >= 0; from -= 32) {
      const int r = from - lane();  // the last rows first
      const int bucket = r >= 0 ? bucket_of(length_of(of, r)) : 0,
                rank = r >= 0 ? rank_of(bucket) : kRanks + 1;
      int place = 0;
#pragma unroll
      for (int k = 0; k < kRanks; ++k) {
        const unsigned lanes = __ballot_sync(0xffffffffu, rank == k);
        if (rank == k) place = longer[k] + __popc(lanes & ((1u << lane()) - 1));
        longer[k] += __popc(lanes);
      }
      if (rank > kRanks) continue;
#pragma unroll 1
      for (int kv = part; kv < kv_heads(); kv += parts) {
        const int pair = rank < kRanks ? entry.first[rank] * kv_heads() + kv * entry.tiles[rank] + place
                                       : atomicAdd(&s.buckets[bucket], 1);
        list_group(of, r, kv, pair);
      }
    }
  }
  // The heads that share K and V stand side by side. Offsets that fall may make more tiles than there is room
  // for.
  __device__ void list_group(const ListedLengths& of, int row_tile, int kv, int pair) const {
    const int group = p.problem.sizes.group;
#pragma unroll 1
    for (int g = 0; g < group; ++g) {
      const long long at = static_cast<long long>(pair) * group + g;
      if (at < p.most_tiles) p.list.tiles[at] = {row_tile, kv * group + g, of, -1};
    }
  }
  __device__ void end_list() const {
    const long long all = static_cast<long long>(s.tiles_of_head) * heads();
    const int tiles = all < p.most_tiles ? static_cast<int>(all) : p.most_tiles;
    for (int b = thread(); b < p.blocks; b += kListThreads) p.list.tiles[tiles + b] = {-1, 0, {}, -1};
    if (thread() == 0) *p.list.taken = 0;
  }
};

}  // namespace tessera::cuda::sm90
