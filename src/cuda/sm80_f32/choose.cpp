#include "cuda/sm80_f32/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "cuda/estimate.hpp"
#include "cuda/sm80_f32/dispatch.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm80_f32 {
namespace {

constexpr std::size_t kRows = std::size(kHeadDims);
constexpr int kMostDim = kHeadDims[kRows - 1];

std::size_t head_dim_row(const core::Problem& p) {
  std::size_t row = 0;
  while (row + 1 < kRows && std::max(p.dim, p.value_dim) > kHeadDims[row]) ++row;
  return row;
}

template <std::size_t... I>
std::array<Functions, kRows> all_functions(std::index_sequence<I...>) {
  return {functions<kHeadDims[I]>()...};
}

const void* f32_function(const core::Problem& p, Variant variant) {
  static const auto all = all_functions(std::make_index_sequence<kRows>());
  return all[head_dim_row(p)].of(variant);
}

std::int64_t blocks_of(const core::Problem& p, const Config& c) {
  return divide_up(p.queries * p.group(), c.rows());
}

core::Status takes_f32(const core::Problem& p) { return f32_tensor_cores_take(p, kMostDim); }

// Against sm90's plain variant on 16-bit numbers (estimate.hpp), as measured on an H200; the second of a pair
// is the variant for few rows, most of which are padding.
constexpr double kRate[kRows][kVariants] = {{0.082, 0.029}, {0.085, 0.029}, {0.057, 0.057}};

core::Estimate estimate_f32(const core::Problem& p, const core::Device& device) {
  return {estimate_us(p, gpu_of(device).arch, gpu_of(device).sms), ""};
}

std::string f32_words(const core::Sizes& p, const Config& c) {
  return fmt::format("three bf16 parts of every number: blocks of {} rows, {} keys at a time{}{}{}", c.rows(),
                     c.tile_keys(),
                     c.key_splits > 1 ? fmt::format(" shared by {} groups of warps", c.key_splits) : "",
                     p.group() > 1 ? fmt::format(", {} heads share their K and V", p.group()) : "",
                     padding_words(p, c.dim, c.value_dim));
}

core::Status prepare_f32(const core::Problem& p, const core::Device& device,
                         std::shared_ptr<const core::Prepared>* out) {
  const runtime::Gpu& gpu = gpu_of(device);
  const Variant variant = variant_for(p, gpu.arch, gpu.sms);
  auto made = std::make_shared<Steps>();
  runtime::Step& step = made->add();
  step.kernel = "sm80_f32";
  set_params(&step, p, static_cast<int>(p.group()));
  step.function = f32_function(p, variant);
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(step.function, gpu.index, &arch); !s.ok()) return s;
  const Config c = config_for(arch, padded_dim(p), variant);
  step.pdl = pdl(arch);
  step.grid[0] = static_cast<unsigned>(blocks_of(p, c));
  step.grid[1] = static_cast<unsigned>(p.kv_heads);
  step.grid[2] = static_cast<unsigned>(p.batch);
  step.threads = static_cast<unsigned>(c.threads());
  step.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  *out = made;
  return made->finish(gpu.index, blocks_of(p, c) * p.kv_heads * p.batch,
                      [sizes = core::Sizes(p), c] { return f32_words(sizes, c); });
}

}  // namespace

int padded_dim(const core::Problem& p) { return kHeadDims[head_dim_row(p)]; }

// Blocks of 16 rows where they leave no SM with more than one.
Variant variant_for(const core::Problem& p, int arch, int sms) {
  const int dim = padded_dim(p);
  if (!has_few(dim)) return Variant::many;
  const Config few = config_for(code_arch_of(arch), dim, Variant::few);
  const std::int64_t blocks = blocks_of(p, few);
  return blocks <= 1 || blocks * p.kv_heads * p.batch <= sms ? Variant::few : Variant::many;
}

double estimate_us(const core::Problem& p, int arch, int sms) {
  const Variant variant = variant_for(p, arch, sms);
  const Config c = config_for(code_arch_of(arch), padded_dim(p), variant);
  const double share = share_of(p, c.rows() / p.group());
  const double tiles = std::max(rounds(blocks_of(p, c) * p.kv_heads * p.batch, sms) * share, 1.0);
  return tiles * c.rows() / kRate[head_dim_row(p)][static_cast<int>(variant)] * row_us(p);
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "sm80_f32";
  row.summary = "production: f32 by mma.sync on three bf16 parts of every number; head dims to 256";
  row.supports = takes_f32;
  row.estimate = estimate_f32;
  row.prepare = prepare_f32;
  row.budget = {255, 227 * 1024, 696};  // docs/f32-sm80.md, "Registers"
  row.symbol = "sm80_f32::attend<";
  return row;
}

}  // namespace tessera::cuda::sm80_f32
