#include "cuda/serving/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "cuda/estimate.hpp"
#include "cuda/serving/dispatch.hpp"
#include "cuda/serving/params.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::serving {
namespace {

constexpr std::size_t kDims = std::size(kHeadDims);
constexpr int kMostDim = kHeadDims[kDims - 1].dim;

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

core::Status supports(const core::Problem& p) {
  if (core::Status s = tensor_cores_take(p, kMostDim); !s.ok()) return s;
  // Its sequences are counted in 32 bits.
  if (p.kv_heads * packed_rows(p) > kMaxLength) {
    return core::unsupported(fmt::format("queries times heads is {}; this kernel takes up to {}",
                                         p.queries * p.heads, kMaxLength));
  }
  return {};
}

// What a problem gets on a GPU of this arch.
struct Choice {
  HeadDims dims;
  Variant variant;
  Config config;
  std::int64_t row_tiles;  // of a K/V head
};

Choice choice_of(const core::Problem& p, int code_arch, Variant variant) {
  Choice choice{};
  choice.dims = kHeadDims[row_of(p.dim, p.value_dim)];
  choice.variant = variant;
  choice.config = config_for(code_arch, choice.dims.dim, choice.dims.value_dim, variant);
  choice.row_tiles = std::max<std::int64_t>(divide_up(packed_rows(p), choice.config.rows()), 1);
  return choice;
}

Choice choice_for(const core::Problem& p, int code_arch) {
  const HeadDims dims = kHeadDims[row_of(p.dim, p.value_dim)];
  const Config few = config_for(code_arch, dims.dim, dims.value_dim, Variant::few);
  return choice_of(p, code_arch,
                   packed_rows(p) <= few.rows() || !has_more(dims.dim) ? Variant::few : Variant::more);
}

// Of an H200's, what the SMs of a GPU have of bandwidth and of products by mma.sync; as measured there.
constexpr double kBytesPerUs = 4.2e6 / 132, kFlopsPerUs = 1.8e8 / 132;
constexpr double kStartUs = 3;

core::Estimate estimate(const core::Problem& p, const core::Device& device) {
  const runtime::Gpu& gpu = gpu_of(device);
  const Choice choice = choice_for(p, sm80::code_arch_of(gpu.arch));
  const double pairs = static_cast<double>(p.batch * p.kv_heads) *
                       visited_keys(p, choice.config.rows() / std::max<std::int64_t>(p.group(), 1));
  const double dims = static_cast<double>(p.dim + p.value_dim), tiles = static_cast<double>(choice.row_tiles);
  const double bytes = pairs * dims * static_cast<double>(core::dtype_size(p.dtype)) * tiles;
  const double flops = pairs * dims * 2 * choice.config.rows() * tiles;
  return {kStartUs + std::max(bytes / kBytesPerUs, flops / kFlopsPerUs) / gpu.sms, ""};
}

// Key tiles that an entry's rows see, at most; a window may begin and end inside of one.
int tiles_of(const core::Problem& p) {
  const bool window = p.visibility.has_band && p.visibility.left < p.keys;
  return static_cast<int>(divide_up(p.keys, kTileKeys)) + (window ? 1 : 0);
}

// How the first kernel's blocks share the work.
struct Work {
  std::int64_t sequences;        // of all entries, at most
  std::int64_t entry_sequences;  // of one entry, at least
  int tiles;                     // of keys, at most
  int most_pieces;               // of a sequence
  std::int64_t pieces, blocks;
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

// The most slots that a block needs: one for the pieces that it begins a sequence with, and one for each
// piece of a sequence that another began, of which none takes less of the line than the least.
std::int64_t slots_of(const Work& w) {
  constexpr std::int64_t kLeastCost = (1 << kLeastShift) + 1;
  const std::int64_t stretch = w.sequences * longest_sequence(w.tiles) / w.blocks + 1;
  return 1 + std::min<std::int64_t>(w.most_pieces - 1, stretch / kLeastCost + 1);
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
};

Work work_of(const core::Problem& p, const Config& c, const Route& route, int sms) {
  Work w{};
  const std::int64_t most_rows = std::min<std::int64_t>(packed_rows(p), route.most_rows);
  const std::int64_t row_tiles = std::max<std::int64_t>(divide_up(most_rows, c.rows()), 1);
  // With offsets all entries together have p.queries rows, and each may have a row tile that is not full.
  w.sequences =
      p.kv_heads * (p.query_offsets ? divide_up(packed_rows(p), c.rows()) + p.batch : p.batch * row_tiles);
  w.entry_sequences = p.query_offsets ? p.kv_heads : p.kv_heads * row_tiles;
  w.tiles = tiles_of(p);
  w.most_pieces =
      share_of_pieces(c.shares_rows() ? kMostPieces : kMostLargePieces, static_cast<int>(w.entry_sequences));
  w.pieces = std::clamp<std::int64_t>(divide_up(w.tiles, 1 << kLeastShift), 1, w.most_pieces);
  w.blocks = blocks_of(std::int64_t{sms} * c.tile.min_blocks, w.sequences, w.pieces);
  return w;
}

std::string words(const core::Sizes& p, const Choice& choice, std::int64_t pieces, std::int64_t blocks) {
  const Config& c = choice.config;
  return fmt::format(
      "blocks of {} rows, {} keys at a time; {} blocks share up to {} pieces of keys a head{}{}", c.rows(),
      c.keys(), blocks, pieces, p.group() > 1 ? fmt::format(", {} heads share their K and V", p.group()) : "",
      padding_words(p, c.tile.dim, c.tile.value_dim));
}

void set_serving_params(runtime::Step* step, const ServingParams& params) {
  step->set_params(params);
  step->place = [](void* bytes, const core::Addresses& at, void* workspace) {
    auto* const d = static_cast<ServingParams*>(bytes);
    place(&d->problem, at);
    d->partials = reinterpret_cast<float*>(static_cast<char*>(workspace) + d->partials_at);
    d->sums = reinterpret_cast<float*>(static_cast<char*>(workspace) + d->sums_at);
    return core::Status{};
  };
}

ServingParams params_of(const core::Problem& p, const Config& c, const Route& route, const Work& w) {
  ServingParams d{};
  d.problem = translate(p, static_cast<int>(p.group()));
  d.blocks = static_cast<int>(w.blocks);
  d.tile_rows = c.rows();
  d.least_rows = route.least_rows;
  d.most_rows = route.most_rows;
  d.plain = !p.by_entry() && p.prior.parts == 0 && p.output.dtype == p.dtype ? 1 : 0;
  d.reads_lengths = p.kv.lengths != nullptr || p.query_offsets || p.kv.offsets ? 1 : 0;
  d.clears = p.query_offsets && route.clears ? 1 : 0;
  d.whole_chunks = keys_of_16_bytes(p) ? 1 : 0;
  d.changes_scores = plain_scores(p) && d.problem.units.first == 1.0f ? 0 : 1;
  // Of an entry, which may have any number of sequences, or of one of as many as all entries have.
  d.few_pieces =
      p.query_offsets ? kFewPieces : share_of_pieces(kFewPieces, static_cast<int>(w.entry_sequences));
  d.most_pieces = p.query_offsets ? (c.shares_rows() ? kMostPieces : kMostLargePieces) : w.most_pieces;
  d.slot_rows = static_cast<int>(std::min<std::int64_t>(c.rows(), packed_rows(p)));
  d.slots = static_cast<int>(slots_of(w));
  return d;
}

// Blocks that share the rows of a sequence in the second kernel.
constexpr int kMergeRows = 8;

// What was launched, for people.
struct Added {
  Choice choice;
  std::int64_t pieces = 1, blocks = 1;
};

// The two kernels of one variant.
void add_launches(const core::Problem& p, const runtime::Gpu& gpu, const Choice& choice, const Route& route,
                  int arch, Steps* steps, Added* added) {
  const Config& c = choice.config;
  const Work work = work_of(p, c, route, gpu.sms);
  ServingParams params = params_of(p, c, route, work);
  const bool merges = work.pieces > 1 && work.sequences > 0 && params.slot_rows > 0 && work.blocks > 1;
  if (merges) {
    params.partials_at =
        steps->add_workspace(work.blocks * params.slots * slot_floats(params.slot_rows, c.tile.value_dim) *
                             static_cast<std::int64_t>(sizeof(float)));
  }
  if (c.sum_in == SumIn::workspace && work.pieces > 1)
    params.sums_at = steps->add_workspace(work.blocks * c.rows() * c.tile.value_dim *
                                          static_cast<std::int64_t>(sizeof(float)));
  runtime::Step& attend = steps->add();
  attend.kernel = "serving";
  attend.function = functions_for(p)[row_of(p.dim, p.value_dim)].attend.of(choice.variant);
  attend.pdl = sm80::pdl(arch);
  attend.grid[0] = static_cast<unsigned>(work.blocks);
  attend.threads = static_cast<unsigned>(c.tile.threads());
  attend.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  set_serving_params(&attend, params);
  if (merges) {
    runtime::Step& merge = steps->add();
    merge.kernel = "serving";
    merge.function = functions_for(p)[row_of(c.tile.value_dim, c.tile.value_dim)].merge;
    merge.pdl = sm80::pdl(arch);
    merge.grid[0] = static_cast<unsigned>(work.blocks - 1);
    merge.grid[1] = static_cast<unsigned>(std::min(params.slot_rows, kMergeRows));
    merge.threads = static_cast<unsigned>(c.tile.value_dim / 2);
    set_serving_params(&merge, params);
  }
  *added = {choice, work.pieces, work.blocks};
}

// Where entries may have any number of rows, each variant gets those that it would get alone.
core::Status add_steps(const core::Problem& p, const runtime::Gpu& gpu, Steps* steps, Added* added) {
  const Functions& functions = functions_for(p)[row_of(p.dim, p.value_dim)];
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(functions.attend.of(Variant::few), gpu.index, &arch);
      !s.ok())
    return s;
  const Choice whole = choice_for(p, arch);
  Route rest{1, std::numeric_limits<int>::max(), true};
  if (p.query_offsets && whole.variant == Variant::more) {
    const Choice few = choice_of(p, arch, Variant::few);
    const int most = few.config.rows();
    add_launches(p, gpu, few, {1, most, true}, arch, steps, added);
    rest = {most + 1, rest.most_rows, false};
  }
  add_launches(p, gpu, whole, rest, arch, steps, added);
  return {};
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  auto made = std::make_shared<Steps>();
  Added added;
  if (core::Status s = add_steps(p, gpu_of(device), made.get(), &added); !s.ok()) return s;
  *out = made;
  core::Status status = made->finish(gpu_of(device).index, added.blocks, [sizes = core::Sizes(p), added] {
    return words(sizes, added.choice, added.pieces, added.blocks);
  });
  made->splits = static_cast<std::int32_t>(added.pieces);
  made->threads = added.choice.config.tile.threads();  // not the second kernel's
  return status;
}

}  // namespace

core::Kernel production_row() {
  core::Kernel row;
  row.name = "serving";
  row.summary =
      "production: ragged batches, pages, priors, any output; keys cut into pieces; f16 and bf16, head dims "
      "to 256";
  row.invariant = true;
  row.supports = supports;
  row.estimate = estimate;
  row.prepare = prepare;
  row.budget = {255, 227 * 1024, 96};  // docs/serving.md, "On a GPU"
  row.symbol = "serving::";
  return row;
}

}  // namespace tessera::cuda::serving
