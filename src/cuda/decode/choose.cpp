#include "cuda/decode/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "cuda/decode/dispatch.hpp"
#include "cuda/decode/params.hpp"
#include "cuda/estimate.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::decode {
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
  if (core::Status s = dense_only(p); !s.ok()) return s;
  if (core::Status s = tensor_cores_take(p, kMostDim); !s.ok()) return s;
  if (packed_rows(p) <= kMostRows) return {};
  return core::unsupported(
      fmt::format("queries times the heads that share K and V is {}; this kernel takes up to {}",
                  packed_rows(p), kMostRows));
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

// The most slots that a block needs: one for the pieces that it begins a sequence with, and one for each
// piece of a sequence that another began.
std::int64_t slots_of(const core::Problem& p, std::int64_t sequences, int tiles, const DecodeParams& d) {
  // Pieces take no more of the line than that, and no piece takes less than the least.
  const Cut longest = cut(tiles, d.few_pieces, d.most_pieces);
  constexpr std::int64_t kLeast = 1 << kLeastShift;
  const std::int64_t line =
      p.batch * sequences * (std::int64_t{tiles} * (kLeast + 1) / kLeast + 2 * longest.cost());
  return 1 + std::min<std::int64_t>(d.most_pieces - 1, (line / d.blocks + 1) / (kLeast + 1) + 1);
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

// What a block of the second kernel may have of shared memory: beside one of the first kernel's, or, where
// there are many rows and each has little to merge, beside many of its own.
std::int64_t staged_bytes(std::int64_t rows, int sms) { return (rows <= sms ? 64 : 16) * 1024; }

std::string words(const core::Sizes& p, const Choice& choice, std::int64_t pieces, std::int64_t blocks) {
  const Config& c = choice.config;
  return fmt::format(
      "blocks of {} rows, {} keys at a time; {} blocks share up to {} pieces of keys a head{}{}", c.rows(),
      c.keys(), blocks, pieces, p.group() > 1 ? fmt::format(", {} heads share their K and V", p.group()) : "",
      padding_words(p, c.tile.dim, c.tile.value_dim));
}

void set_decode_params(runtime::Step* step, const DecodeParams& params) {
  step->set_params(params);
  step->place = [](void* bytes, const core::Addresses& at, void* workspace) {
    auto* const d = static_cast<DecodeParams*>(bytes);
    place(&d->problem, at);
    d->partials = static_cast<float*>(workspace);
    return core::Status{};
  };
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  const runtime::Gpu& gpu = gpu_of(device);
  const std::size_t row = row_of(p.dim, p.value_dim);
  const Functions& functions = functions_for(p)[row];
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(functions.attend, gpu.index, &arch); !s.ok()) return s;
  const Choice choice = choice_for(p, arch);
  const Config& c = choice.config;
  const std::int64_t sequences = p.kv_heads * choice.row_tiles;
  const int tiles = tiles_of(p);
  const int most = share_of_pieces(kMostPieces, static_cast<int>(sequences));
  const std::int64_t pieces = std::clamp<std::int64_t>(divide_up(tiles, 1 << kLeastShift), 1, most);
  const std::int64_t blocks =
      blocks_of(std::int64_t{gpu.sms} * c.tile.min_blocks, p.batch * sequences, pieces);

  DecodeParams params{};
  params.problem = translate(p, static_cast<int>(p.group()));
  params.blocks = static_cast<int>(blocks);
  params.row_tiles = static_cast<int>(choice.row_tiles);
  params.whole_chunks = rows_of_16_bytes(p) ? 1 : 0;
  params.changes_scores = plain_scores(p) && params.problem.units.first == 1.0f ? 0 : 1;
  params.few_pieces = share_of_pieces(kFewPieces, static_cast<int>(sequences));
  params.most_pieces = most;
  params.slot_rows = static_cast<int>(std::min<std::int64_t>(c.rows(), packed_rows(p)));
  params.slots = static_cast<int>(slots_of(p, sequences, tiles, params));

  auto made = std::make_shared<Steps>();
  runtime::Step& attend = made->add();
  attend.kernel = "decode";
  attend.function = functions.attend;
  attend.pdl = sm80::pdl(arch);
  attend.grid[0] = static_cast<unsigned>(blocks);
  attend.threads = static_cast<unsigned>(c.tile.threads());
  attend.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  set_decode_params(&attend, params);
  if (pieces > 1 && p.batch > 0 && p.queries > 0) {
    made->add_workspace(blocks * params.slots * slot_floats(params.slot_rows, c.tile.value_dim) *
                        static_cast<std::int64_t>(sizeof(float)));
    const std::int64_t slot_bytes = c.tile.value_dim * static_cast<std::int64_t>(sizeof(float));
    params.staged = static_cast<int>(
        std::min(pieces + 1, staged_bytes(sequences * params.slot_rows * p.batch, gpu.sms) / slot_bytes));
    runtime::Step& merge = made->add();
    merge.kernel = "decode";
    merge.function = functions_for(p)[row_of(c.tile.value_dim, c.tile.value_dim)].merge;
    merge.pdl = attend.pdl;
    merge.grid[0] = static_cast<unsigned>(sequences * params.slot_rows);
    merge.grid[1] = static_cast<unsigned>(p.batch);
    merge.threads = kMergeThreads;
    merge.shared_bytes = static_cast<unsigned>(params.staged * slot_bytes);
    set_decode_params(&merge, params);
  }
  made->splits = static_cast<std::int32_t>(pieces);
  *out = made;
  core::Status status = made->finish(gpu.index, blocks, [sizes = core::Sizes(p), choice, pieces, blocks] {
    return words(sizes, choice, pieces, blocks);
  });
  made->threads = c.tile.threads();  // not the second kernel's
  return status;
}

}  // namespace

Choice choice_for(const core::Problem& p, int code_arch) {
  Choice choice{};
  choice.dims = kHeadDims[row_of(p.dim, p.value_dim)];
  choice.config = config_for(code_arch, choice.dims.dim, choice.dims.value_dim);
  choice.row_tiles = std::max<std::int64_t>(divide_up(packed_rows(p), choice.config.rows()), 1);
  return choice;
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "decode";
  row.summary =
      "production: up to 16 packed rows over many keys, cut into pieces; f16 and bf16, head dims to 256";
  row.invariant = true;
  row.supports = supports;
  row.estimate = estimate;
  row.prepare = prepare;
  row.budget = {255, 227 * 1024, 0};
  row.symbol = "decode::";
  return row;
}

}  // namespace tessera::cuda::decode
