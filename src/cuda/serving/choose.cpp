#include "cuda/serving/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "cuda/estimate.hpp"
#include "cuda/serving/boxes.hpp"
#include "cuda/serving/dims.hpp"
#include "cuda/serving/dispatch.hpp"
#include "cuda/serving/params.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/sm90/entries.hpp"
#include "cuda/tile/band.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::serving {
namespace {

constexpr std::size_t kDims = std::size(kHeadDims);

// One Functions per row of kHeadDims.
template <Element kElement, std::size_t... I>
std::array<Functions, kDims> functions_of(std::index_sequence<I...>) {
  return {functions<kElement, kHeadDims[I].dim, kHeadDims[I].value_dim>()...};
}

const std::array<Functions, kDims>& functions_for(const core::Problem& p) {
  static const auto f16 = functions_of<Element::f16>(std::make_index_sequence<kDims>());
  static const auto bf16 = functions_of<Element::bf16>(std::make_index_sequence<kDims>());
  return p.dtype == TESSERA_BF16 ? bf16 : f16;
}

std::size_t row_of(std::int64_t dim, std::int64_t value_dim) {
  std::size_t row = 0;
  while (row + 1 < kDims && (dim > kHeadDims[row].dim || value_dim > kHeadDims[row].value_dim)) ++row;
  return row;
}

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

// What the variants without options leave out. None of it depends on the batch.
bool needs_options(const core::Problem& p) {
  return !plain_scores(p) || translate(p, 1).units.first != 1.0f || p.prior.parts > 0 || !query_in_pairs(p) ||
         !keys_of_16_bytes(p) || !in_pairs(p, p.output.rows, p.value_dim, p.output.dtype);
}

Choice choice_of(const core::Problem& p, int code_arch, bool few) {
  Choice choice{};
  choice.dims = kHeadDims[row_of(p.dim, p.value_dim)];
  choice.variant = variant_of(few, needs_options(p));
  choice.config = config_for(code_arch, choice.dims.dim, choice.dims.value_dim, choice.variant);
  choice.row_tiles = std::max<std::int64_t>(divide_up(packed_rows(p), choice.config.rows), 1);
  return choice;
}

// Of an H200's, what the SMs of a GPU have of bandwidth and of products by mma.sync; as measured there. By
// TMA, which GPUs before Hopper have not, large problems without options are read faster than decode's
// kernels read them, and small ones start and end later: those meet at about 90 MB of K and V.
constexpr double kBytesPerUs = 4.2e6 / 132, kFlopsPerUs = 1.8e8 / 132;
constexpr double kTmaBytesPerUs = 4.5e6 / 132, kWgmmaFlopsPerUs = 5e8 / 132;
constexpr double kStartUs = 3, kTmaStartUs = 4.5;

// Key tiles that an entry's rows see, at most; a window may begin and end inside of one.
int tiles_of(const core::Problem& p) {
  const bool window = p.visibility.has_band && p.visibility.left < p.keys;
  return static_cast<int>(divide_up(p.keys, kTileKeys)) + (window ? 1 : 0);
}

// How blocks share the work.
struct Work {
  std::int64_t sequences;        // of all entries, at most
  std::int64_t entry_sequences;  // of one entry, at least
  int tiles;                     // of keys, at most
  int most_pieces;               // of a sequence
  std::int64_t pieces, blocks;
  int coarse;       // see Cut
  int chain_shift;  // see pieces.hpp
  bool alike;       // all entries, and the host knows what they are like
  bool leaves;  // blocks leave something in the workspace: no block has all of a sequence, or chains of it
};

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

// Which entries a launch is for: those with so many packed rows; and whether rows that no entry owns are,
// too.
struct Route {
  int least_rows, most_rows;
  bool clears;
  std::int64_t others_at = -1;  // ServingParams::others, in the workspace
};

Work work_of(const core::Problem& p, const Config& c, const Route& route, int sms) {
  Work w{};
  const std::int64_t most_rows = std::min<std::int64_t>(packed_rows(p), route.most_rows);
  const std::int64_t row_tiles = std::max<std::int64_t>(divide_up(most_rows, c.rows), 1);
  // With offsets all entries together have p.queries rows, and each may have a row tile that is not full.
  const std::int64_t tiles_of_all = p.batch * row_tiles;
  w.sequences =
      p.kv_heads *
      (p.query_offsets ? std::min(divide_up(packed_rows(p), c.rows) + p.batch, tiles_of_all) : tiles_of_all);
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
  const std::int64_t units = w.entry_sequences * c.pieces, all = units * p.batch;
  if (all == 0 || all > kMaxLength || d.blocks > all) return {};
  a.units = static_cast<int>(units);
  a.by_pieces = tile::make_divider(c.pieces);
  a.by_units = tile::make_divider(a.units);
  const Line line = make_line(all, d.blocks);
  a.share = static_cast<int>(line.share);
  a.rest = line.rest;
  return a;
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

core::Status place(void* params, const core::Addresses& at, void* workspace) {
  using core::TensorId;
  auto* const d = static_cast<ServingParams*>(params);
  cuda::place(&d->problem, at);
  const auto bytes = [&](TensorId id) { return static_cast<const char*>(at[id]); };
  if (d->query_offsets.data != nullptr) d->query_offsets.data = bytes(TensorId::query_offsets);
  if (d->key_offsets.data != nullptr) d->key_offsets.data = bytes(TensorId::key_offsets);
  if (d->key_lengths.data != nullptr) d->key_lengths.data = bytes(TensorId::key_lengths);
  char* const memory = static_cast<char*>(workspace);
  d->partials = reinterpret_cast<float*>(memory + d->partials_at);
  d->counters = reinterpret_cast<unsigned long long*>(memory + d->counters_at);
  d->others = d->others_at < 0 ? nullptr : reinterpret_cast<int*>(memory + d->others_at);
  if (d->box_shift == 0) return {};
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.move_map(&d->key, at[TensorId::key]); !s.ok()) return s;
  return cuda.move_map(&d->value, at[TensorId::value]);
}

core::Status set_boxes(const core::Problem& p, int arch, int gpu, ServingParams* d) {
  const int shift = arch >= 90 ? box_shift(p) : 0;
  if (shift == 0) return {};
  d->box_shift = shift;
  const Boxes boxes = boxes_of(p, shift);
  if (core::Status s = runtime::current().encode(boxes.key, gpu, &d->key); !s.ok()) return s;
  return runtime::current().encode(boxes.value, gpu, &d->value);
}

// The kernel of one variant.
core::Status add_launch(const core::Problem& p, const runtime::Gpu& gpu, const Choice& choice,
                        const Route& route, int arch, Steps* steps, Launched* launched) {
  const Config& c = choice.config;
  const Work work = work_of(p, c, route, gpu.sms);
  ServingParams params = params_of(p, choice, route, work);
  if (core::Status s = set_boxes(p, arch, gpu.index, &params); !s.ok()) return s;
  if (work.leaves && work.sequences > 0 && params.slot_rows > 0) {
    const auto slot_bytes =
        static_cast<std::int64_t>(sizeof(float)) * slot_floats(params.slot_rows, c.value_dim);
    params.counters_at =
        steps->add_workspace(work.blocks * 2 * static_cast<std::int64_t>(sizeof *params.counters));
    params.chains = static_cast<int>(work.blocks * params.slots);
    params.partials_at =
        steps->add_workspace((params.chains + work.blocks * 2 * params.chain_slots) * slot_bytes);
  }
  runtime::Step& attend = steps->add();
  attend.kernel = "serving";
  attend.function = functions_for(p)[row_of(p.dim, p.value_dim)].attend.of(choice.variant);
  attend.pdl = sm80::pdl(arch);
  attend.grid[0] = static_cast<unsigned>(work.blocks);
  attend.threads = static_cast<unsigned>(c.threads());
  // Where there is a block for every SM at most, two on one would leave another without work.
  const bool alone = c.min_blocks > 1 && work.blocks <= gpu.sms;
  attend.shared_bytes =
      static_cast<unsigned>(alone ? std::max(c.shared_bytes(), kAloneBytes) : c.shared_bytes());
  attend.set_params(params);
  attend.place = place;
  *launched = {choice, work.pieces, work.blocks};
  return {};
}

core::Estimate estimate(const core::Problem& p, const core::Device& device) {
  const runtime::Gpu& gpu = gpu_of(device);
  const Choice choice = choice_for(p, sm80::code_arch_of(gpu.arch));
  const double pairs = static_cast<double>(p.batch * p.kv_heads) *
                       visited_keys(p, choice.config.rows / std::max<std::int64_t>(p.group(), 1));
  const double dims = static_cast<double>(p.dim + p.value_dim), tiles = static_cast<double>(choice.row_tiles);
  const double read = choice.config.latent ? static_cast<double>(p.dim) : dims;
  const double bytes = pairs * read * static_cast<double>(core::dtype_size(p.dtype)) * tiles;
  const double flops = pairs * dims * 2 * choice.config.rows * tiles;
  const bool tma = gpu.arch >= 90 && box_shift(p) > 0 && !takes_options(choice.variant);
  const double reading = bytes / (tma ? kTmaBytesPerUs : kBytesPerUs);
  const double products = flops / (choice.config.wgmma ? kWgmmaFlopsPerUs : kFlopsPerUs);
  return {(tma ? kTmaStartUs : kStartUs) + std::max(reading, products) / gpu.sms, ""};
}

// From so many queries on sm90 takes an entry: its tiles have 128 rows of one head.
constexpr int kPromptQueries = 64;

// Each entry goes to the kernels that it would go to alone.
core::Status add_all(const core::Problem& p, const runtime::Gpu& gpu, Steps* steps, Launched* launched) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const bool prompts = sm90::takes_entries(p, gpu);
  if (!prompts) return add_steps(p, gpu, kAll, steps, launched);
  if (p.query_offsets || p.queries < kPromptQueries)
    if (core::Status s = add_steps(p, gpu, kPromptQueries - 1, steps, launched); !s.ok()) return s;
  if (p.queries < kPromptQueries) return {};
  launched->prompts = true;
  return sm90::add_entries(p, gpu, kPromptQueries, steps);
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  const runtime::Gpu& gpu = gpu_of(device);
  auto made = std::make_shared<Steps>();
  Launched launched;
  if (core::Status s = add_all(p, gpu, made.get(), &launched); !s.ok()) return s;
  *out = made;
  core::Status status = made->finish(gpu.index, launched.blocks,
                                     [sizes = core::Sizes(p), launched] { return words(sizes, launched); });
  made->splits = static_cast<std::int32_t>(launched.pieces);
  if (launched.choice.config.dim > 0)
    made->threads = launched.choice.config.threads();  // not the last kernel's
  return status;
}

}  // namespace

Choice choice_for(const core::Problem& p, int code_arch) {
  const HeadDims dims = kHeadDims[row_of(p.dim, p.value_dim)];
  const Config few = config_for(code_arch, dims.dim, dims.value_dim, Variant::few);
  return choice_of(p, code_arch, packed_rows(p) <= few.rows || !has_more(dims.dim));
}

core::Status takes(const core::Problem& p) {
  if (core::Status s = tensor_cores_take(p, kLatentDims.dim); !s.ok()) return s;
  if (core::Status s = takes_dims(p); !s.ok()) return s;
  // The line of all pieces is counted in 32 bits: so many sequences, at least one piece each. A row tile has
  // 8 packed rows at least.
  constexpr std::int64_t kMostSequences = std::int64_t{1} << 28;
  const std::int64_t row_tiles = divide_up(packed_rows(p), 8) * (p.query_offsets ? 1 : p.batch) + p.batch;
  if (p.kv_heads * row_tiles > kMostSequences)
    return core::unsupported(
        fmt::format("batch, heads and queries make {} sequences of up to 8 rows; this kernel takes up to {}",
                    p.kv_heads * row_tiles, kMostSequences));
  if (p.kv_heads * packed_rows(p) <= kMaxLength) return {};
  return core::unsupported(
      fmt::format("queries times heads is {}; this kernel takes up to {}", p.queries * p.heads, kMaxLength));
}

std::string words(const core::Sizes& p, const Launched& launched) {
  std::string prompts =
      launched.prompts ? fmt::format("entries of {} queries and more by sm90's tiles", kPromptQueries) : "";
  const Config& c = launched.choice.config;
  if (c.dim == 0) return prompts;
  return fmt::format(
      "blocks of {} rows, {} keys at a time{}; {} blocks share up to {} pieces of keys a head{}{}{}{}",
      c.rows, c.keys, c.latent ? ", which hold their values" : "", launched.blocks, launched.pieces,
      p.group() > 1 ? fmt::format(", {} heads share their K and V", p.group()) : "",
      padding_words(p, c.dim, c.value_dim), prompts.empty() ? "" : "; ", prompts);
}

// Where entries may have any number of rows, each variant gets those that it would get alone.
core::Status add_steps(const core::Problem& p, const runtime::Gpu& gpu, std::int64_t most_queries,
                       Steps* steps, Launched* launched) {
  const Functions& functions = functions_for(p)[row_of(p.dim, p.value_dim)];
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(functions.attend.of(Variant::few), gpu.index, &arch);
      !s.ok())
    return s;
  const Choice whole = choice_for(p, arch);
  const auto most =
      static_cast<int>(std::min<std::int64_t>(most_queries, std::numeric_limits<int>::max() /
                                                                std::max<std::int64_t>(p.group(), 1)) *
                       p.group());
  Route rest{1, most, true};
  if (p.query_offsets && !whole.config.few) {
    const Choice few = choice_of(p, arch, true);
    const int rows = few.config.rows;
    const std::int64_t others_at = steps->add_workspace(static_cast<std::int64_t>(sizeof(int)));
    if (core::Status s = add_launch(p, gpu, few, {1, rows, true, others_at}, arch, steps, launched); !s.ok())
      return s;
    rest = {rows + 1, most, false, others_at};
  }
  return add_launch(p, gpu, whole, rest, arch, steps, launched);
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "serving";
  row.summary =
      "production: ragged batches, pages, priors, any output; keys cut into pieces; f16 and bf16, head dims "
      "to 256, to 576 where values lie in keys";
  row.invariant = true;
  row.supports = takes;
  row.estimate = estimate;
  row.prepare = prepare;
  row.budget = {255, 227 * 1024, 152};  // of head dim 192 with options, stores and loads
  row.symbol = "serving::";
  return row;
}

}  // namespace tessera::cuda::serving
