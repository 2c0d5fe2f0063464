#include "cuda/sm89/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "cuda/estimate.hpp"
#include "cuda/sm80/configs.hpp"
#include "cuda/sm89/dispatch.hpp"
#include "cuda/sm89/params.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm89 {
namespace {

constexpr std::size_t kRows = std::size(kDims);

template <Element kCodes, std::size_t... I>
std::array<Functions, kRows> functions_of(std::index_sequence<I...>) {
  return {functions<kCodes, kDims[I]>()...};
}

std::size_t row_of(const core::Sizes& p) {
  std::size_t row = 0;
  while (std::max(p.dim, p.value_dim) > kDims[row]) ++row;
  return row;
}

const void* function_for(const core::Problem& p) {
  static const auto e4m3 = functions_of<Element::e4m3>(std::make_index_sequence<kRows>());
  static const auto e5m2 = functions_of<Element::e5m2>(std::make_index_sequence<kRows>());
  return (p.dtype == TESSERA_F8E4M3 ? e4m3 : e5m2)[row_of(p)].of(variant_of(p));
}

std::int64_t row_tiles(const core::Problem& p) { return divide_up(p.queries, config_of(p).rows()); }

core::Status supports(const core::Problem& p) {
  if (!core::is_8_bit(p.dtype))
    return core::unsupported(
        fmt::format("dtype is {}; f8e4m3 and f8e5m2 are accepted", core::dtype_name(p.dtype)));
  if (p.dim > kMostDim || p.value_dim > kMostDim)
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; up to {} is accepted", p.dim, p.value_dim, kMostDim));
  if (core::Status s = within_limits(p); !s.ok()) return s;
  if (core::Status s = dense_batch(p); !s.ok()) return s;
  if (p.kv.value_column_stride != 1)
    return core::unsupported("value is transposed; this kernel takes value rows of contiguous elements");
  if (queries_of_16_bytes(p) && keys_of_16_bytes(p)) return {};
  return core::unsupported(
      "rows of query, key or value are not aligned to 16 bytes or not a multiple of 16 elements long");
}

core::Estimate estimate(const core::Problem& p, const core::Device& device) {
  constexpr double kRate = 0.25;  // against sm90's plain variant: as sm80's, and codes are converted
  const double tiles = rounds(row_tiles(p) * p.heads * p.batch, gpu_of(device).sms);
  return {std::max(tiles, 1.0) * config_of(p).rows() / kRate * row_us(p), ""};
}

std::string_view name_of(Variant variant) {
  return variant == Variant::plain ? "plain" : variant == Variant::blocks ? "blocks" : "general";
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  const runtime::Gpu& gpu = gpu_of(device);
  const Config c = config_of(p);
  auto made = std::make_shared<Steps>();
  runtime::Step& step = made->add();
  step.kernel = "sm89";
  set_params(&step, p);
  step.function = function_for(p);
  int arch = 0;
  if (core::Status s = runtime::current().code_arch(step.function, gpu.index, &arch); !s.ok()) return s;
  step.pdl = sm80::pdl(arch);
  step.grid[0] = static_cast<unsigned>(row_tiles(p));
  step.grid[1] = static_cast<unsigned>(p.heads);
  step.grid[2] = static_cast<unsigned>(p.batch);
  step.threads = static_cast<unsigned>(c.threads());
  step.shared_bytes = static_cast<unsigned>(c.shared_bytes());
  *out = made;
  return made->finish(
      gpu.index, row_tiles(p) * p.heads * p.batch, [sizes = core::Sizes(p), c, variant = variant_of(p)] {
        return fmt::format("{} variant: blocks of {} rows, {} keys at a time, Q K and P V of f16{}",
                           name_of(variant), c.rows(), c.keys, padding_words(sizes, c.dim, c.dim));
      });
}

}  // namespace

Config config_of(const core::Problem& p) { return config_for(kDims[row_of(p)]); }

Variant variant_of(const core::Problem& p) {
  if (!plain_scores(p)) return Variant::general;
  return p.scales.value.block_stride != 0 ? Variant::blocks : Variant::plain;
}

// Rows that are not there are zeros, but the address that they would have must be aligned, too: a stride
// along a dimension of one row may be anything.
void set_params(runtime::Step* step, const core::Problem& p) {
  CodedParams params{translate(p, 1), translate_coded(p)};
  KeysAndValues& kv = params.problem.kv;
  if (p.queries <= 1) params.problem.query.strides.row = 0;
  if (p.keys <= 1) kv.key.strides.row = kv.value.strides.row = 0;
  step->set_params(params);
  step->place = [](void* placed, const core::Addresses& at, void*) {
    auto* const to = static_cast<CodedParams*>(placed);
    place(&to->problem, at);
    place(&to->coded, at);
    return core::Status{};
  };
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "sm89";
  row.summary = "production: 8-bit inputs by mma.sync of f16, which holds their codes; head dims to 256";
  row.supports = supports;
  row.estimate = estimate;
  row.prepare = prepare;
  row.arithmetic = core::Arithmetic::fp8_accurate;
  // Head dim 256, where V has scales by block, stores 32 bytes on sm_80 and sm_89 and loads them again.
  row.budget = {255, 99 * 1024, 64};
  row.symbol = "sm89::attend<";
  return row;
}

}  // namespace tessera::cuda::sm89
