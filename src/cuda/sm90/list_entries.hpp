// Lists the row tiles of a ragged or paged batch, in the order in which blocks take them; by one block.
//
//   long ones    entry by entry, the longest entry first; of an entry head by head, so that few heads' K and
//   V
//                are in use at once; of a head the longest tile first
//   short ones   of all entries and heads together, the longest first
//
// Blocks that become free at different times at the end of the long ones are evened out by the short ones,
// if these are work enough: as much as the longest tile is to every block. How long a tile is, is counted in
// key tiles, and lengths that differ by less than a 32nd share a bucket.
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

inline constexpr int kListThreads = 1024;
inline constexpr int kBuckets = 26 * 32;

struct ListShared {
  int entries;                  // listed
  int longest;                  // tile of all
  int first_long;               // bucket; those before it are of short tiles
  int long_tiles, short_tiles;  // of a head, in all
  int tiles[kBuckets];          // of a head; then where a bucket's short ones begin
  int places[kBuckets];  // long tiles of the entries whose longest is in the bucket; then where they begin
};

class Lister {
 public:
  __device__ Lister(const ListParams& params, ListShared& shared) : p(params), s(shared) {}

  __device__ void run() {
    for (int b = thread(); b < kBuckets; b += kListThreads) s.tiles[b] = s.places[b] = 0;
    if (thread() == 0) s.entries = s.longest = 0;
    ptx::wait_for_dependencies();
    __syncthreads();
    find_entries();
    __syncthreads();
    if (s.entries > 0) list_all();
    if (thread() == 0) *p.list.header = {0, s.entries > 0 ? all_tiles() : 0};
  }

 private:
  const ListParams& p;
  ListShared& s;

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int lane() { return thread() % 32; }
  __device__ int heads() const { return p.problem.sizes.heads; }
  // Offsets that fall may make more than there is room for.
  __device__ int all_tiles() const {
    const long long tiles = static_cast<long long>(s.long_tiles + s.short_tiles) * heads();
    return tiles < p.most_tiles ? static_cast<int>(tiles) : p.most_tiles;
  }

  __device__ void find_entries() {
    for (int b = thread(); b < p.problem.sizes.batch; b += kListThreads) {
      const tile::AnySequence sequence{p.problem, b};
      const ListedEntry entry = {
          sequence.first_query(), sequence.queries(), sequence.first_key(), sequence.keys(), b, 0, 0, 0};
      if (entry.queries >= max(p.least_queries, 1)) p.list.entries[atomicAdd(&s.entries, 1)] = entry;
    }
  }
  __device__ void list_all() {
    for_entries([&](int n, const ListedEntry& entry) { count_tiles(n, entry); });
    __syncthreads();
    if (thread() < 32) part_short_from_long();
    __syncthreads();
    for_entries([&](int n, const ListedEntry& entry) { count_long_tiles(n, entry); });
    __syncthreads();
    if (thread() < 32) {
      const int tiles = begin_from_above(s.places, kBuckets);
      if (lane() == 0) s.long_tiles = tiles;
    }
    __syncthreads();
    for_entries([&](int n, const ListedEntry& entry) { list_entry(n, entry); });
  }

  // Each by a warp.
  template <class F>
  __device__ void for_entries(const F& f) const {
#pragma unroll 1
    for (int n = thread() / 32; n < s.entries; n += kListThreads / 32) {
      const ListedEntry entry = p.list.entries[n];
      f(n, entry);
    }
  }
  __device__ int tiles_of(const ListedEntry& entry) const {
    return (entry.queries + p.tile_rows - 1) / p.tile_rows;
  }
  // In key tiles, and one for getting started.
  __device__ int length_of(const ListedEntry& entry, int row_tile) const {
    const Visibility& seen = p.problem.visibility;
    const tile::Band band = {entry.keys, seen.align_bottom_right != 0 ? entry.keys - entry.queries : 0,
                             seen.left, seen.right};
    const int first = row_tile * p.tile_rows, last = min(first + p.tile_rows, entry.queries) - 1;
    const tile::KeyRange range = tile::key_range(band, first, last);
    if (range.end <= range.begin) return 2;
    return (range.end - 1) / p.tile_keys - range.begin / p.tile_keys + 2;
  }
  // By the leading bits, as a float has them: exact up to 64.
  __device__ static int bucket_of(int length) {
    return min((__float_as_int(static_cast<float>(length)) >> 18) - (127 << 5), kBuckets - 1);
  }
  __device__ static float least_length(int bucket) { return __int_as_float((bucket + (127 << 5)) << 18); }

  __device__ void count_tiles(int n, const ListedEntry& entry) {
    int longest = 0;
    for (int r = lane(); r < tiles_of(entry); r += 32) {
      const int length = length_of(entry, r);
      longest = max(longest, length);
      atomicAdd(&s.tiles[bucket_of(length)], 1);
    }
    longest = __reduce_max_sync(0xffffffffu, longest);
    if (lane() != 0) return;
    p.list.entries[n].bucket = bucket_of(longest);
    atomicMax(&s.longest, longest);
  }

  // By one warp: a lane has buckets [lane * kOwn, lane * kOwn + kOwn).
  static constexpr int kOwn = kBuckets / 32;
  // The first bucket up to which all are work enough; where one bucket has it all, none is short.
  __device__ void part_short_from_long() {
    const float enough =
        static_cast<float>(p.blocks) * static_cast<float>(s.longest) / static_cast<float>(heads());
    float work[kOwn], own = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      work[i] = static_cast<float>(s.tiles[lane() * kOwn + i]) * least_length(lane() * kOwn + i);
      own += work[i];
    }
    float sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_up_sync(0xffffffffu, sum, static_cast<unsigned>(step));
      if (lane() >= step) sum += other;
    }
    int first = kBuckets;
#pragma unroll
    for (int i = kOwn - 1; i >= 0; --i) {
      if (sum >= enough) first = lane() * kOwn + i;
      sum -= work[i];
    }
    first = __reduce_min_sync(0xffffffffu, first);
    const int tiles = begin_from_above(s.tiles, first);
    if (lane() == 0) s.first_long = first, s.short_tiles = tiles;
  }
  // Of buckets before `end`, how many come before: those of the buckets above. Returns how many in all.
  __device__ static int begin_from_above(int (&counts)[kBuckets], int end) {
    int count[kOwn], own = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int b = lane() * kOwn + i;
      count[i] = b < end ? counts[b] : 0;
      own += count[i];
    }
    int sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_down_sync(0xffffffffu, sum, static_cast<unsigned>(step));
      if (lane() + step < 32) sum += other;
    }
    int above = sum - own;
#pragma unroll
    for (int i = kOwn - 1; i >= 0; --i) {
      counts[lane() * kOwn + i] = above;
      above += count[i];
    }
    return __shfl_sync(0xffffffffu, sum, 0);
  }

  __device__ bool is_long(const ListedEntry& entry, int row_tile) const {
    return bucket_of(length_of(entry, row_tile)) >= s.first_long;
  }
  __device__ void count_long_tiles(int n, const ListedEntry& entry) {
    int tiles = 0;
    for (int r = lane(); r < tiles_of(entry); r += 32) tiles += is_long(entry, r) ? 1 : 0;
    tiles = __reduce_add_sync(0xffffffffu, tiles);
    if (lane() != 0) return;
    p.list.entries[n].long_tiles = tiles;
    atomicAdd(&s.places[entry.bucket], tiles);
  }

  __device__ void put(long long at, int row_tile, int head, int n) const {
    if (at < p.most_tiles) p.list.tiles[at] = {row_tile, head, n, -1};
  }
  __device__ void list_entry(int n, const ListedEntry& entry) {
    int first = 0;
    if (lane() == 0) first = atomicAdd(&s.places[entry.bucket], entry.long_tiles);
    first = __shfl_sync(0xffffffffu, first, 0);
    int longer = 0;  // of a head
#pragma unroll 1
    for (int from = tiles_of(entry) - 1; from >= 0; from -= 32) {
      const int r = from - lane();  // the last rows first
      const bool is_long_one = r >= 0 && is_long(entry, r);
      const unsigned lanes = __ballot_sync(0xffffffffu, is_long_one);
      const int rank = longer + __popc(lanes & ((1u << lane()) - 1));
      longer += __popc(lanes);
      if (is_long_one) {
        list_long(n, entry, first, rank, r);
      } else if (r >= 0) {
        const int place = s.long_tiles + atomicAdd(&s.tiles[bucket_of(length_of(entry, r))], 1);
        for (int h = 0; h < heads(); ++h) put(static_cast<long long>(place) * heads() + h, r, h, n);
      }
    }
  }
  // Behind so many tiles of a head of others, and of its own. Heads that share K and V stand side by side.
  __device__ void list_long(int n, const ListedEntry& entry, int first, int rank, int row_tile) const {
    const int group = p.problem.sizes.group;
    long long at = static_cast<long long>(first) * heads() + rank * group;
    for (int h = 0; h < heads(); at += static_cast<long long>(entry.long_tiles) * group)
      for (int g = 0; g < group; ++g, ++h) put(at + g, row_tile, h, n);
  }
};

}  // namespace tessera::cuda::sm90
