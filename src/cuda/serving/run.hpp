// Which pieces a block takes: found on the device, because only there the entries' lengths are known. By one
// warp, which tells the others.
#pragma once

#include "cuda/ptx/pdl.hpp"
#include "cuda/serving/params.hpp"
#include "cuda/serving/pieces.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::serving {

// Number n, clamped to 0 ... most. Past L1, in which what was read before kernels before this one had ended
// would stay (Scheduler).
__device__ inline int number(const Numbers& of, int n, int most) {
  const int* const at = reinterpret_cast<const int*>(of.data + n * of.stride_bytes);
  const int low = __ldcg(at), high = of.wide != 0 ? __ldcg(at + 1) : low >> 31;
  return high < 0 ? 0 : high > 0 || low < 0 || low > most ? most : low;
}

// One entry of the batch, as all of its sequences share it.
struct Entry {
  int first_query, queries;
  int first_key, keys;
  int first_tile;  // of the key tiles that some row of it sees
  Cut cut;
  int cost;       // of a piece, on the line
  int row_tiles;  // of a K/V head; 0 where the entry is not for these kernels
  int sequences;

  __device__ int units() const { return cut.pieces * sequences; }
  __device__ int length() const { return units() * cost; }
  // Row tiles are taken from both ends in turn: where later ones see more keys, neighbours on the line are as
  // much work together everywhere.
  __device__ int row_tile(int n) const { return n % 2 == 0 ? n / 2 : row_tiles - 1 - n / 2; }
};

__device__ inline tile::Band band_of(const Params& p, const Entry& e) {
  const Visibility& v = p.visibility;
  return {e.keys, v.align_bottom_right != 0 ? e.keys - e.queries : 0, v.left, v.right};
}

// Whether all entries are alike: nothing has to be read to know what is to be done.
__device__ inline bool alike(const ServingParams& d) { return d.alike.units > 0; }

__device__ inline Entry entry_alike(const ServingParams& d) {
  const Sizes& sizes = d.problem.sizes;
  return {.queries = sizes.queries,
          .keys = sizes.keys,
          .first_tile = d.alike.first_tile,
          .cut = {d.alike.shift, d.alike.pieces},
          .cost = 1,
          .row_tiles = d.alike.row_tiles,
          .sequences = sizes.kv_heads * (d.passes > 1 ? 1 : d.alike.row_tiles)};
}

// The n-th on the line: see ServingParams::passes.
__device__ inline int batch_of(const ServingParams& d, int n) {
  return d.passes > 1 ? n % d.problem.sizes.batch : n;
}
__device__ inline Entry entry_of(const ServingParams& d, int n) {
  const Params& p = d.problem;
  const int batch = batch_of(d, n);
  Entry e{0, p.sizes.queries, 0, p.sizes.keys};
  if (d.query_offsets.data != nullptr) {
    e.first_query = number(d.query_offsets, batch, p.sizes.queries);
    e.queries = max(number(d.query_offsets, batch + 1, p.sizes.queries) - e.first_query, 0);
  }
  if (d.key_offsets.data != nullptr) {
    e.first_key = number(d.key_offsets, batch, p.sizes.keys);
    e.keys = max(number(d.key_offsets, batch + 1, p.sizes.keys) - e.first_key, 0);
  }
  if (d.key_lengths.data != nullptr) e.keys = number(d.key_lengths, batch, p.sizes.keys);
  if (p.kv.pages.table != nullptr && p.kv.pages.count == 0) e.keys = 0;
  const int rows = e.queries * p.sizes.group;
  const tile::KeyRange range = tile::key_range(band_of(p, e), 0, max(e.queries - 1, 0));
  e.first_tile = range.begin / kTileKeys;
  const int tiles = range.end > range.begin ? ceil_divide(range.end, kTileKeys) - e.first_tile : 0;
  e.row_tiles =
      rows < d.least_rows || rows > d.most_rows ? 0 : max((rows + d.tile_rows - 1) >> d.tile_shift, 1);
  e.sequences = p.sizes.kv_heads * (d.passes > 1 ? min(e.row_tiles, 1) : e.row_tiles);
  const bool divided = d.query_offsets.data == nullptr || e.row_tiles <= 1;
  e.cut = cut(tiles, divided ? d.most_pieces
                             : share_of_pieces(d.few != 0 ? kMostPieces : kMostLargePieces, e.sequences));
  e.cost = e.cut.cost(d.coarse);
  return e;
}

// That of lane `from`.
__device__ inline Entry entry_from(const Entry& e, int from) {
  const auto of = [from](int x) { return __shfl_sync(0xffffffffu, x, from); };
  return {of(e.first_query), of(e.queries),    of(e.first_key),
          of(e.keys),        of(e.first_tile), {of(e.cut.shift), of(e.cut.pieces)},
          of(e.cost),        of(e.row_tiles),  of(e.sequences)};
}

// What a block does of one sequence, and all that it has to know of it.
struct alignas(16) Task {
  int batch;       // -1: there are no more
  int pack_index;  // the K/V head
  int first_row;   // packed
  int rows;        // packed, of the entry
  int first_query, first_key;
  int keys, offset;     // of the entry's band
  tile::KeyRange seen;  // by these rows
  // Tiles [first, end), of pieces first_piece ... end_piece - 1, all of one chain; the sequence's first piece
  // begins at tile `start`.
  int first, end, start, piece_tiles, first_piece, end_piece;
  int chain, chains, pieces;  // which one, of how many, and of how many pieces the sequence has
  int line_at, cost;          // of the sequence and of a piece, on the line
  bool begins, ends;          // it has the chain's first piece, its last
  bool alone;                 // the block has all of the sequence
  // Where the block leaves what it has: of a whole chain, of the pieces that one begins with, or of the first
  // of some pieces of a chain that another began.
  int slot;

  // Behind the last tile of a piece.
  __device__ int end_of(int piece) const { return min(start + (piece + 1) * piece_tiles, end); }
};

// The pieces of a sequence that a block has.
struct Stretch {
  int begin, end;
};

// kKeys: of a tile. As many pieces from `first` on as are left of its chain and of the stretch. line_at:
// where the entry, the n-th, begins on the line.
template <int kKeys>
__device__ inline Task task_of(const ServingParams& d, int n, const Entry& entry, int line_at, int sequence,
                               int first, const Stretch& stretch) {
  constexpr int kSteps = kTileKeys / kKeys;  // tiles in one of pieces.hpp's
  const tile::Divider& pack = d.problem.pack;
  const tile::Band band = band_of(d.problem, entry);
  const int pieces = entry.cut.pieces, shift = d.chain_shift, chain = first >> shift;
  const int chain_end = min((chain + 1) << shift, pieces), end = min(chain_end, stretch.end);
  Task t;
  t.batch = batch_of(d, n);
  const bool whole_heads = entry.row_tiles == 1 || d.passes > 1;  // a sequence of each
  t.pack_index = whole_heads ? sequence : sequence / entry.row_tiles;
  const int row_tile = d.passes > 1 ? n / d.problem.sizes.batch : sequence - t.pack_index * entry.row_tiles;
  t.first_row = entry.row_tiles == 1 ? 0 : entry.row_tile(row_tile) * d.tile_rows;
  t.rows = entry.queries * d.problem.sizes.group;
  t.first_query = entry.first_query;
  t.first_key = entry.first_key;
  t.keys = band.keys;
  t.offset = band.offset;
  t.seen = tile::key_range(band, pack.divide(t.first_row),
                           pack.divide(min(t.first_row + d.tile_rows, t.rows) - 1));
  t.start = entry.first_tile * kSteps;
  t.piece_tiles = entry.cut.tiles() * kSteps;
  t.first = max(t.start + first * t.piece_tiles, t.seen.begin / kKeys);
  t.end = min(t.start + end * t.piece_tiles, ceil_divide(t.seen.end, kKeys));
  t.first_piece = first;
  t.end_piece = end;
  t.chain = chain;
  t.chains = (pieces + (1 << shift) - 1) >> shift;
  t.pieces = pieces;
  t.line_at = line_at + sequence * pieces * entry.cost;
  t.cost = entry.cost;
  t.begins = first == chain << shift;
  t.ends = end == chain_end;
  t.slot = 0;
  t.alone = stretch.begin == 0 && stretch.end == pieces;
  return t;
}

// Which slots of the workspace (params.hpp) belong to what of a task's sequence.
struct Slots {
  const ServingParams& d;
  const Line& line;
  const Task& task;

  __device__ int chain_first() const { return task.chain << d.chain_shift; }
  __device__ int chain_end() const { return min((task.chain + 1) << d.chain_shift, task.pieces); }
  __device__ int at(int piece) const { return task.line_at + piece * task.cost; }
  __device__ int chain_owner() const { return line.block_of(at(chain_first())); }  // its first block
  // The first piece of the sequence that a block has.
  __device__ int first_in(int block) const {
    return first_from(line.first_of(block), task.line_at, task.cost);
  }

  __device__ int first_of(int block) const { return block * d.slots; }
  // Of a piece of a chain that another block began.
  __device__ int of_piece(int piece, int block) const {
    return first_of(block) + 1 + piece - first_in(block);
  }
  __device__ int of_chain(int chain) const {
    const int shift = d.chain_shift, owner = line.block_of(at(chain << shift));
    const int first = first_from(line.first_of(owner), task.line_at, task.cost << shift);
    const int begun = owner == line.block_of(task.line_at) ? 1 : 0;
    return d.chains + (2 * owner + begun) * d.chain_slots + chain - first;
  }
  // Those of the chain, by a whole warp, lane n having the n-th: what its first block has, then each of the
  // other pieces.
  __device__ int of_parts(int* count) const {
    const int owner = chain_owner(), lane = static_cast<int>(threadIdx.x) % 32;
    const int behind = min(first_in(owner + 1), chain_end());  // the first that is another's
    *count = 1 + chain_end() - behind;
    if (lane == 0 || lane >= *count) return first_of(owner);
    const int piece = behind + lane - 1;
    return of_piece(piece, line.block_of(at(piece)));
  }
  __device__ int of_task(int block) const {
    if (task.begins && task.ends) return task.chains > 1 ? of_chain(task.chain) : 0;
    return task.begins ? first_of(block) : of_piece(task.first_piece, block);
  }
};

// What a block sees of its sequence: nothing is read for it.
template <class T>
__device__ inline tile::AnyView<T> view_of(const Params& p, const Task& t) {
  const int group = p.sizes.group;
  const long long before = t.batch * p.output.strides.batch + t.first_query * p.output.strides.row;
  tile::AnyView<T> v;
  v.query = static_cast<const T*>(p.query.data) + t.batch * p.query.strides.batch +
            t.first_query * p.query.strides.row;
  v.output = p.output.f32 != 0 ? reinterpret_cast<T*>(static_cast<float*>(p.output.data) + before)
                               : static_cast<T*>(p.output.data) + before;
  v.lse = p.output.lse == nullptr ? nullptr
                                  : p.output.lse + t.batch * p.output.lse_strides.batch +
                                        t.first_query * p.output.lse_strides.row;
  v.key = nullptr;
  v.value = nullptr;
  v.pages = nullptr;
  v.batch = t.batch;
  v.first_head = t.pack_index * group;
  v.first_query = t.first_query;
  v.pack = p.pack;
  v.rows = t.rows;
  v.band = {t.keys, t.offset, p.visibility.left, p.visibility.right};
  return v;
}

// Before memory is read that kernels before this one may still be writing: see ptx/pdl.hpp.
__device__ inline void wait_for_kernels_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  ptx::wait_for_dependencies();
#endif
}

// Which entry on the line, and where it begins there.
struct Place {
  int n, start;
};

// The line, and the entry on it that the first point of `block` belongs to; none if there is nothing to do.
// By a whole warp, of which each lane looks at one entry at a time.
__device__ inline Line find_first(const ServingParams& d, int block, Place* place, Entry* entry,
                                  bool* others) {
  constexpr unsigned kAll = 0xffffffffu;
  const int entries = d.problem.sizes.batch, lane = static_cast<int>(threadIdx.x) % 32;
  if (alike(d)) {
    const Line line{d.alike.share, d.alike.rest};
    *entry = entry_alike(d);
    place->n = d.alike.by_units.divide(line.first_of(block));
    place->start = place->n * d.alike.units;
    return line;
  }
  Line line{0, 0};
  int at = 0, total = 0, pass = 0;
  *place = {entries * d.passes, 0};
  // Once to add up, then again to find the entry; not again where a lane has no more than one entry to look
  // at.
#pragma unroll 1
  for (int round = 0; round < 2; ++round) {
    int before = 0;
#pragma unroll 1
    for (int first = 0; first < entries; first += 32) {
      if (round == 0 || entries > 32) *entry = first + lane < entries ? entry_of(d, first + lane) : Entry{};
      const int length = first + lane < entries ? entry->length() : 0;
      if (round == 0 && __any_sync(kAll, entry->queries * d.problem.sizes.group > d.most_rows))
        *others = true;
      int upto = length;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(kAll, upto, step);
        if (lane >= step) upto += other;
      }
      upto += before;
      const unsigned who = round == 0 ? 0 : __ballot_sync(kAll, at < upto);
      if (who != 0) {
        const int from = __ffs(static_cast<int>(who)) - 1;
        *place = {pass * entries + first + from, pass * total + __shfl_sync(kAll, upto - length, from)};
        *entry = entry_from(*entry, from);
        return line;
      }
      before = __shfl_sync(kAll, upto, 31);
    }
    if (round == 1) break;
    total = before;
    line = make_line(total * d.passes, d.blocks);
    at = line.first_of(block);
    if (at >= total * d.passes) break;
    if (d.passes > 1) {  // all of them are alike
      pass = at / total;
      at -= pass * total;
    }
  }
  return line;
}

}  // namespace tessera::cuda::serving
