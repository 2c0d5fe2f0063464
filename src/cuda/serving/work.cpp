#include "cuda/serving/work.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cuda/estimate.hpp"
#include "cuda/tile/band.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::serving {
namespace {

// Key tiles that an entry's rows see, at most; a window may begin and end inside of one.
int tiles_of(const core::Problem& p) {
  const bool window = p.visibility.has_band && p.visibility.left < p.keys;
  return static_cast<int>(divide_up(p.keys, kTileKeys)) + (window ? 1 : 0);
}

// The most that a sequence takes of the line, however many others its entry has: with a share of one piece
// that may be almost twice as long as the keys.
std::int64_t longest_sequence(int tiles) {
  std::int64_t longest = 0;
  for (int shift = kLeastShift;; ++shift) {
    const std::int64_t piece = std::int64_t{1} << shift;
    longest = std::max(longest, std::max<std::int64_t>(divide_up(tiles, piece), 1) * (piece + 1));
    if (piece >= tiles) return longest;
  }
}

// The most pieces of one sequence, or chains of n, that begin in a block's stretch of the line; a piece takes
// no less of it than the least.
std::int64_t most_of_block(const Work& w, std::int64_t n) {
  const std::int64_t least_cost = n * Cut{kLeastShift, 1}.cost(w.coarse);
  const std::int64_t stretch = w.sequences * longest_sequence(w.tiles) / w.blocks + 1;  // not coarse: more
  return std::min(divide_up(w.most_pieces, n), stretch / least_cost + 1);
}

// As many as run at once, or a few less where each can then have whole sequences, or whole parts of one:
// there is less to merge. None has less than a piece.
std::int64_t blocks_of(std::int64_t at_once, std::int64_t sequences, std::int64_t pieces) {
  const std::int64_t most = std::max<std::int64_t>(std::min(at_once, sequences * pieces), 1);
  if (sequences == 0) return most;
  const std::int64_t even =
      sequences <= most ? most / sequences * sequences : divide_up(sequences, divide_up(sequences, most));
  return 10 * even >= 9 * most ? even : most;
}

Numbers numbers(const void* data, std::int64_t stride, tessera_dtype dtype) {
  return {static_cast<const char*>(data), stride * core::dtype_size(dtype), dtype == TESSERA_I64 ? 1 : 0};
}

// What the kernels would find on the device (run.hpp), worked out here; no units where it does not fit 32
// bits.
Alike alike_of(const core::Problem& p, const Choice& choice, const Work& w, const ServingParams& d) {
  const auto queries = static_cast<int>(p.queries);
  const tile::KeyRange seen = tile::key_range(
      {d.problem.sizes.keys, p.visibility.align_bottom_right ? d.problem.sizes.keys - queries : 0,
       d.problem.visibility.left, d.problem.visibility.right},
      0, std::max(queries - 1, 0));
  Alike a{};
  a.first_tile = seen.begin / kTileKeys;
  const int tiles = seen.end > seen.begin ? ceil_divide(seen.end, kTileKeys) - a.first_tile : 0;
  const Cut c = cut(tiles, d.most_pieces);
  a.shift = c.shift;
  a.pieces = c.pieces;
  a.row_tiles = static_cast<int>(choice.row_tiles);
  const std::int64_t units = w.entry_sequences / w.passes * c.pieces, all = units * p.batch * w.passes;
  if (all == 0 || all > kMaxLength || d.blocks > all) return {};
  a.units = static_cast<int>(units);
  a.by_pieces = tile::make_divider(c.pieces);
  a.by_units = tile::make_divider(a.units);
  const Line line = make_line(all, d.blocks);
  a.share = static_cast<int>(line.share);
  a.rest = line.rest;
  return a;
}

}  // namespace

std::int64_t packed_rows(const core::Problem& p) { return p.queries * p.group(); }

// Two neighbouring elements can be read or written at once, in every row of query or output. A stride along a
// dimension of one element is never used, and frameworks set it to anything.
bool in_pairs(const core::Problem& p, const core::Tensor4& t, std::int64_t columns, tessera_dtype dtype) {
  const auto even = [](std::int64_t extent, std::int64_t stride) { return extent <= 1 || stride % 2 == 0; };
  const auto pair = static_cast<std::uintptr_t>(2 * core::dtype_size(dtype));
  return reinterpret_cast<std::uintptr_t>(t.data) % pair == 0 && columns % 2 == 0 &&
         even(p.batch, t.batch_stride) && even(p.heads, t.head_stride) && even(p.queries, t.row_stride);
}
bool query_in_pairs(const core::Problem& p) { return in_pairs(p, p.query, p.dim, p.dtype); }

Work work_of(const core::Problem& p, const Config& c, const Route& route, int sms) {
  Work w{};
  const std::int64_t most_rows = std::min<std::int64_t>(packed_rows(p), route.most_rows);
  const std::int64_t row_tiles = std::max<std::int64_t>(divide_up(most_rows, c.rows), 1);
  // With offsets all entries together have p.queries rows, and each may have a row tile that is not full.
  const std::int64_t tiles_of_all = p.batch * row_tiles;
  w.sequences =
      p.kv_heads *
      (p.query_offsets ? std::min(divide_up(packed_rows(p), c.rows) + p.batch, tiles_of_all) : tiles_of_all);
  // Of few queries all row tiles see about as many keys.
  constexpr std::int64_t kFewQueries = 16;
  w.passes = !p.query_offsets && c.large_ends() && p.queries <= kFewQueries ? row_tiles : 1;
  w.entry_sequences = p.query_offsets ? p.kv_heads : p.kv_heads * row_tiles;
  w.tiles = tiles_of(p);
  w.most_pieces =
      share_of_pieces(c.large_ends() ? kMostLargePieces : kMostPieces, static_cast<int>(w.entry_sequences));
  w.pieces = cut(w.tiles, w.most_pieces).pieces;
  constexpr std::int64_t kMostLine = std::numeric_limits<int>::max() / 4;
  while (w.sequences * (longest_sequence(w.tiles) >> w.coarse) > kMostLine) ++w.coarse;
  w.alike = !p.query_offsets && !p.kv.offsets && p.kv.lengths == nullptr && p.queries > 0;
  w.blocks = blocks_of(std::int64_t{sms} * c.min_blocks, w.sequences, w.pieces);
  w.chain_shift = c.large_ends() ? kLargeChainShift : kChainShift;
  w.leaves = w.most_pieces > 1 << w.chain_shift ||
             !(w.pieces == 1 || w.blocks == 1 || (w.alike && w.sequences % w.blocks == 0));
  return w;
}

ServingParams params_of(const core::Problem& p, const Choice& choice, const Route& route, const Work& w) {
  const Config& c = choice.config;
  ServingParams d{};
  d.problem = translate(p, static_cast<int>(p.group()));
  if (p.query_offsets)
    d.query_offsets = numbers(p.query_offsets.data, p.query_offsets.stride, p.query_offsets.dtype);
  if (p.kv.offsets) d.key_offsets = numbers(p.kv.offsets.data, p.kv.offsets.stride, p.kv.offsets.dtype);
  if (p.kv.lengths != nullptr) d.key_lengths = numbers(p.kv.lengths, p.kv.lengths_stride, p.kv.lengths_dtype);
  d.blocks = static_cast<int>(w.blocks);
  d.tile_rows = c.rows;
  while (1 << d.tile_shift < d.tile_rows) ++d.tile_shift;
  d.least_rows = route.least_rows;
  d.most_rows = route.most_rows;
  d.others_at = route.others_at;
  d.few = c.large_ends() ? 0 : 1;
  d.clears = p.query_offsets && route.clears ? 1 : 0;
  d.whole_chunks = keys_of_16_bytes(p) ? 1 : 0;
  d.query_pairs = query_in_pairs(p) ? 1 : 0;
  d.most_pieces = w.most_pieces;
  d.coarse = w.coarse;
  d.passes = static_cast<int>(w.passes);
  d.tail = translate_tail(p);
  d.tail_block = p.kv.tail_dim == 0 ? -1 : c.coded() ? c.dim / c.block() - 1 : d.tail.key_dim / c.block();
  d.slot_rows = static_cast<int>(std::min<std::int64_t>(c.rows, packed_rows(p)));
  d.chain_shift = w.chain_shift;
  // One for the pieces that a block begins a chain with, and one for each piece of a chain that another
  // began.
  const std::int64_t chain = std::int64_t{1} << w.chain_shift;
  d.slots = static_cast<int>(1 + std::min(chain - 1, most_of_block(w, 1)));
  d.chain_slots = w.most_pieces > chain ? static_cast<int>(most_of_block(w, chain)) : 0;
  if (w.alike) d.alike = alike_of(p, choice, w, d);
  return d;
}

}  // namespace tessera::cuda::serving
