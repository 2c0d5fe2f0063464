#include "cuda/serving/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "cuda/estimate.hpp"
#include "cuda/serving/boxes.hpp"
#include "cuda/serving/codes.hpp"
#include "cuda/serving/dims.hpp"
#include "cuda/serving/dispatch.hpp"
#include "cuda/serving/params.hpp"
#include "cuda/serving/work.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/sm90/entries.hpp"
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

std::size_t row_of(const core::Problem& p) {
  if (p.kv.tail_dim > 0) return kDims - 1;
  std::size_t row = 0;
  while (row + 1 < kDims && (p.dim > kHeadDims[row].dim || p.value_dim > kHeadDims[row].value_dim)) ++row;
  return row;
}

// What the variants without options leave out. None of it depends on the batch.
bool needs_options(const core::Problem& p) {
  return !plain_scores(p) || translate(p, 1).units.first != 1.0f || p.prior.parts > 0 || !query_in_pairs(p) ||
         !keys_of_16_bytes(p) || !in_pairs(p, p.output.rows, p.value_dim, p.output.dtype);
}

Choice choice_of(const core::Problem& p, int code_arch, bool few) {
  Choice choice{};
  if (has_codes(p)) {
    choice = coded_choice(p, code_arch, few);
  } else {
    choice.dims = kHeadDims[row_of(p)];
    choice.variant = variant_of(few, needs_options(p));
    choice.config = config_for(code_arch, choice.dims.dim, choice.dims.value_dim, choice.variant);
    const Functions& functions = functions_for(p)[row_of(p)];
    choice.function = functions.attend.of(choice.variant);
    choice.merge = functions.merge.of(choice.variant);
  }
  choice.row_tiles = std::max<std::int64_t>(divide_up(packed_rows(p), choice.config.rows), 1);
  return choice;
}

// Of an H200's, what the SMs of a GPU have of bandwidth and of products by mma.sync; as measured there. By
// TMA, which GPUs before Hopper have not, large problems without options are read faster than decode's
// kernels read them, and small ones start and end later: those meet at about 90 MB of K and V.
constexpr double kBytesPerUs = 4.2e6 / 132, kFlopsPerUs = 1.8e8 / 132;
constexpr double kTmaBytesPerUs = 4.5e6 / 132, kWgmmaFlopsPerUs = 5e8 / 132;
constexpr double kStartUs = 3, kTmaStartUs = 4.5;

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
  const bool tail = d->tail_block >= 0;
  if (tail) d->tail.keys.data = at[TensorId::key_tail];
  if (d->box_shift == 0) return {};
  const runtime::Runtime& cuda = runtime::current();
  if (core::Status s = cuda.move_map(&d->key, at[TensorId::key]); !s.ok()) return s;
  return cuda.move_map(&d->value, at[tail ? TensorId::key_tail : TensorId::value]);
}

core::Status set_boxes(const core::Problem& p, int arch, int gpu, ServingParams* d) {
  // Scales that differ come with their keys, and threads copy both.
  const int shift = arch >= 90 && !scales_differ(p) ? box_shift(p) : 0;
  if (shift == 0) return {};
  d->box_shift = shift;
  const Boxes boxes = boxes_of(p, shift);
  if (core::Status s = runtime::current().encode(boxes.key, gpu, &d->key); !s.ok()) return s;
  return runtime::current().encode(boxes.value, gpu, &d->value);
}

// Where a sequence is spread over several blocks, rows are merged by a second kernel in less time than by who
// comes last; otherwise another launch takes longer than that. So it does behind the kernel for few rows,
// where the one for more often has nothing to do.
bool merges_apart(const Choice& choice, const Route& route, const Work& work) {
  constexpr std::int64_t kSpread = 4;
  return choice.merge != nullptr && route.others_at < 0 && work.blocks >= kSpread * work.sequences;
}

core::Status place_coded(void* params, const core::Addresses& at, void* workspace) {
  auto* const d = static_cast<CodedParams*>(params);
  cuda::place(&d->mixed.coded, at);
  return place(static_cast<ServingParams*>(d), at, workspace);
}
// Of either kernel.
void set_step_params(const core::Problem& p, const ServingParams& params, runtime::Step* step) {
  step->kernel = has_codes(p) ? "serving_codes" : "serving";
  if (has_codes(p)) {
    step->set_params(coded_params(p, params));
    step->place = place_coded;
  } else {
    step->set_params(params);
    step->place = place;
  }
}

// The second kernel: merge_rows.hpp.
void add_merge(const core::Problem& p, const Choice& choice, const ServingParams& params, bool pdl,
               Steps* steps) {
  runtime::Step& merge = steps->add();
  merge.function = choice.merge;
  merge.pdl = pdl;
  merge.grid[0] = static_cast<unsigned>(params.blocks - 1);
  merge.grid[1] = static_cast<unsigned>(divide_up(params.slot_rows, merge_rows_at_once(choice.config)));
  merge.threads = static_cast<unsigned>(merge_threads(choice.config));
  set_step_params(p, params, &merge);
}

// The kernel of one variant.
core::Status add_launch(const core::Problem& p, const runtime::Gpu& gpu, const Choice& choice,
                        const Route& route, int arch, Steps* steps, Launched* launched) {
  const Config& c = choice.config;
  const Work work = work_of(p, c, route, gpu.sms);
  ServingParams params = params_of(p, choice, route, work);
  if (core::Status s = set_boxes(p, arch, gpu.index, &params); !s.ok()) return s;
  if (work.leaves && work.sequences > 0 && params.slot_rows > 0) {
    params.merges_apart = merges_apart(choice, route, work) ? 1 : 0;
    const auto slot_bytes =
        static_cast<std::int64_t>(sizeof(float)) * slot_floats(params.slot_rows, c.value_dim);
    params.counters_at =
        steps->add_workspace(work.blocks * 2 * static_cast<std::int64_t>(sizeof *params.counters));
    params.chains = static_cast<int>(work.blocks * params.slots);
    params.partials_at =
        steps->add_workspace((params.chains + work.blocks * 2 * params.chain_slots) * slot_bytes);
  }
  runtime::Step& attend = steps->add();
  attend.function = choice.function;
  attend.pdl = sm80::pdl(arch);
  attend.grid[0] = static_cast<unsigned>(work.blocks);
  attend.threads = static_cast<unsigned>(c.threads());
  // Where there is a block for every SM at most, two on one would leave another without work.
  const bool alone = c.min_blocks > 1 && work.blocks <= gpu.sms;
  attend.shared_bytes =
      static_cast<unsigned>(alone ? std::max(c.shared_bytes(), kAloneBytes) : c.shared_bytes());
  set_step_params(p, params, &attend);
  if (params.merges_apart != 0) add_merge(p, choice, params, attend.pdl, steps);
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
  const double bytes = pairs * read * static_cast<double>(core::dtype_size(p.kv.dtype)) * tiles;
  const double flops = pairs * dims * 2 * choice.config.rows * tiles;
  const bool tma = gpu.arch >= 90 && box_shift(p) > 0 && !scales_differ(p) && !takes_options(choice.variant);
  const double reading = bytes / (tma ? kTmaBytesPerUs : kBytesPerUs);
  const double products = flops / (choice.config.wgmma ? kWgmmaFlopsPerUs : kFlopsPerUs);
  return {(tma ? kTmaStartUs : kStartUs) + std::max(reading, products) / gpu.sms, ""};
}

// From so many queries on sm90 takes an entry: its tiles have 128 rows of one head.
constexpr int kPromptQueries = 64;

// Each entry goes to the kernels that it would go to alone.
core::Status add_all(const core::Problem& p, const runtime::Gpu& gpu, Steps* steps, Launched* launched) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  if (!sm90::takes_entries(p, gpu)) return add_steps(p, gpu, kAll, steps, launched);
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

// Whether the line of pieces can be counted.
core::Status fits_line(const core::Problem& p) {
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

core::Status takes_codes(const core::Problem& p) {
  if (core::Status s = coded_tensors(p); !s.ok()) return s;
  return fits_line(p);
}

core::Kernel row_of_both() {
  core::Kernel row;
  row.invariant = true;
  row.tail = true;
  row.estimate = estimate;
  row.prepare = prepare;
  return row;
}

}  // namespace

Choice choice_for(const core::Problem& p, int code_arch) {
  const Choice few = choice_of(p, code_arch, true);
  const bool has_others = has_codes(p) ? has_all_coded(few.dims.dim) : has_more(few.dims.dim);
  return packed_rows(p) <= few.config.rows || !has_others ? few : choice_of(p, code_arch, false);
}

core::Status takes(const core::Problem& p) {
  if (core::Status s = tensor_cores_take(p, kLatentDims.dim); !s.ok()) return s;
  if (core::Status s = takes_dims(p); !s.ok()) return s;
  return fits_line(p);
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
      padding_words(p, std::min(c.dim, kLatentDims.dim), c.value_dim), prompts.empty() ? "" : "; ", prompts);
}

// Where entries may have any number of rows, each variant gets those that it would get alone.
core::Status add_steps(const core::Problem& p, const runtime::Gpu& gpu, std::int64_t most_queries,
                       Steps* steps, Launched* launched) {
  int arch = 0;
  const void* const any = choice_of(p, gpu.arch, true).function;
  if (core::Status s = runtime::current().code_arch(any, gpu.index, &arch); !s.ok()) return s;
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
  core::Kernel row = row_of_both();
  row.name = "serving";
  row.summary =
      "production: ragged batches, pages, priors, any output; keys cut into pieces; f16 and bf16, head dims "
      "to 256, to 576 where values lie in keys";
  row.supports = takes;
  row.budget = {255, 227 * 1024, 152};  // of head dim 192 with options, stores and loads
  row.symbol = "serving::attend<";
  return row;
}

core::Kernel codes_row() {
  core::Kernel row = row_of_both();
  row.name = "serving_codes";
  row.summary =
      "production: the same over keys and values of 8 bits, widened on the way to the tensor cores; queries "
      "of 8 or 16 bits, head dims to 256, to 576 where values lie in keys";
  row.mixed = true;
  row.supports = takes_codes;
  row.arithmetic = core::Arithmetic::fp8_accurate;
  row.budget = {255, 227 * 1024, 192};  // of 64 rows on sm_89, stores and loads
  row.symbol = "serving::attend_codes<";
  return row;
}

}  // namespace tessera::cuda::serving
