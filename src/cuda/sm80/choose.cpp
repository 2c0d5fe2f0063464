#include "cuda/sm80/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "cuda/estimate.hpp"
#include "cuda/sm80/dispatch.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm80 {
namespace {

constexpr std::size_t kRows = std::size(kHeadDims);

// One Functions per row of kHeadDims.
template <Element kElement, std::size_t... I>
std::array<Functions, kRows> functions_of(std::index_sequence<I...>) {
  return {functions<kElement, kHeadDims[I].dim, kHeadDims[I].value_dim>()...};
}

const void* function_for(const core::Problem& p, Variant variant) {
  static const auto f16 = functions_of<Element::f16>(std::make_index_sequence<kRows>());
  static const auto bf16 = functions_of<Element::bf16>(std::make_index_sequence<kRows>());
  return (p.dtype == TESSERA_BF16 ? bf16 : f16)[row_for(p)].of(variant);
}

std::string_view name_of(Variant variant) {
  return variant == Variant::plain ? "plain" : variant == Variant::small ? "small" : "general";
}

// Blocks that share the value columns of a row tile.
int parts_of(const core::Sizes& p) { return p.value_dim > kLargest.value_dim ? kMostParts : 1; }

std::int64_t row_blocks(const core::Problem& p, const Config& c) {
  return divide_up(p.queries * p.group(), c.rows()) * parts_of(p);
}

Config config_of(const core::Problem& p, int code_arch, Variant variant) {
  const HeadDims dims = padded_dims(p);
  return config_for(code_arch, dims.dim, dims.value_dim, variant);
}

core::Status supports(const core::Problem& p) {
  static_assert(kLargest.value_dim * kMostParts == kLargest.dim);
  if (core::Status s = dense_only(p); !s.ok()) return s;
  return tensor_cores_take(p, kLargest.dim);
}

// Against sm90's plain variant, for head dims to 64 and beyond, as measured on an H200 (docs/sm90.md, "Which
// variant"); the second of a pair is the variant for few rows.
constexpr double kRate[2][2] = {{0.75, 0.48}, {0.54, 0.33}};
constexpr double kPartsRate = 0.22;  // of what is computed, padding included

core::Estimate estimate(const core::Problem& p, const core::Device& device) {
  return {estimate_us(p, gpu_of(device).arch, gpu_of(device).sms), ""};
}

std::string words(const core::Sizes& p, const Config& c, Variant variant) {
  return fmt::format("{} variant: blocks of {} rows, {} keys at a time{}{}{}{}", name_of(variant), c.rows(),
                     c.tile_keys(), p.value_dim > c.value_dim ? ", half of the value columns" : "",
                     c.key_splits > 1 ? fmt::format(" shared by {} groups of warps", c.key_splits) : "",
                     p.group() > 1 ? fmt::format(", {} heads share their K and V", p.group()) : "",
                     padding_words(p, c.dim, c.value_dim * parts_of(p)));
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  const runtime::Gpu& gpu = gpu_of(device);
  const Variant variant = variant_for(p, gpu.arch, gpu.sms);
  auto made = std::make_shared<Steps>();
  runtime::Step& step = made->add();
  step.kernel = "sm80";
  set_params(&step, p, static_cast<int>(p.group()));
  step.function = function_for(p, variant);
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(step.function, gpu.index, &arch); !s.ok()) return s;
  const Config c = config_of(p, arch, variant);
  step.pdl = pdl(arch);
  step.grid[0] = static_cast<unsigned>(row_blocks(p, c));
  step.grid[1] = static_cast<unsigned>(p.kv_heads);
  step.grid[2] = static_cast<unsigned>(p.batch);
  step.threads = static_cast<unsigned>(c.threads());
  step.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  *out = made;
  return made->finish(gpu.index, row_blocks(p, c) * p.kv_heads * p.batch,
                      [sizes = core::Sizes(p), c, variant] { return words(sizes, c, variant); });
}

}  // namespace

std::size_t row_for(const core::Problem& p) {
  std::size_t row = 0;
  while (row + 1 < kRows && (p.dim > kHeadDims[row].dim || p.value_dim > kHeadDims[row].value_dim)) ++row;
  return row;
}

HeadDims padded_dims(const core::Problem& p) { return kHeadDims[row_for(p)]; }

// Too few blocks of the plain variant to give every SM one: smaller blocks, more of them.
Variant variant_for(const core::Problem& p, int arch, int sms) {
  if (in_parts(padded_dims(p).dim) || !rows_of_16_bytes(p) || !plain_scores(p) || p.scoring.scale <= 0)
    return Variant::general;
  if (!has_small(padded_dims(p).dim)) return Variant::plain;
  const Config plain = config_of(p, code_arch_of(arch), Variant::plain);
  return row_blocks(p, plain) * p.kv_heads * p.batch < sms ? Variant::small : Variant::plain;
}

double estimate_us(const core::Problem& p, int arch, int sms) {
  const Variant variant = variant_for(p, arch, sms);
  const Config c = config_of(p, code_arch_of(arch), variant);
  const double share = share_of(p, c.rows() / p.group());
  const double tiles = std::max(rounds(row_blocks(p, c) * p.kv_heads * p.batch, sms) * share, 1.0);
  const double row = c.rows() * row_us(p);
  if (in_parts(c.dim)) {  // each part computes all scores, of the padded dim
    const double work = static_cast<double>(c.dim + c.value_dim) / static_cast<double>(p.dim + p.value_dim);
    return tiles * row * work / kPartsRate;
  }
  return tiles * row / kRate[c.dim > 64 ? 1 : 0][variant == Variant::small ? 1 : 0];
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "sm80";
  row.summary =
      "production: mma.sync and cp.async, fused softmax in registers; f16 and bf16, head dims to 512";
  row.supports = supports;
  row.estimate = estimate;
  row.prepare = prepare;
  row.budget = {255, 227 * 1024, 64};  // docs/sm80.md, "Registers"
  row.symbol = "sm80::attend<";
  return row;
}

}  // namespace tessera::cuda::sm80
