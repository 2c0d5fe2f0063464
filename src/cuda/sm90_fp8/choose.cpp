#include "cuda/sm90_fp8/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cuda/estimate.hpp"
#include "cuda/sm90/choose.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/sm90_fp8/launch.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90_fp8 {
namespace {

constexpr int kMostDim = kHeadDims[std::size(kHeadDims) - 1].dim;

Variant variant_of(const core::Problem& p) {
  if (p.visibility.mask.kind != core::MaskKind::none) return Variant::general;
  if (!plain_scores(p) || p.scoring.scale <= 0) return Variant::changed;
  return p.scales.key.block_stride != 0 ? Variant::blocks : Variant::plain;
}

// A pass reads V 16 bytes at a time, and tensor maps the rest.
core::Status check_tensors(const core::Problem& p) {
  const sm90::Extents queries{p.batch, p.heads, p.queries}, keys{p.batch, p.kv_heads, p.keys},
      columns{p.batch, p.kv_heads, p.value_dim};
  if (core::Status s = sm90::check_box(p.dtype, "query", p.query, queries); !s.ok()) return s;
  if (core::Status s = sm90::check_box(p.dtype, "key", p.kv.key, keys); !s.ok()) return s;
  if (core::Status s = is_transposed(p) ? sm90::check_box(p.dtype, "value", transposed(p), columns)
                                        : sm90::check_box(p.dtype, "value", p.kv.value, keys);
      !s.ok())
    return s;
  return sm90::check_box(p.output.dtype, "output", p.output.rows, queries);
}

core::Status supports(const core::Problem& p) {
  if (!core::is_8_bit(p.dtype))
    return core::unsupported(
        fmt::format("dtype is {}; f8e4m3 and f8e5m2 are accepted", core::dtype_name(p.dtype)));
  // There P's rounding would show, of the key that a row sees most above all.
  if (p.output.dtype == TESSERA_F32)
    return core::unsupported("output.dtype is f32; this kernel takes f16 and bf16");
  if (p.dim > kMostDim || p.value_dim > kMostDim)
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; up to {} is accepted", p.dim, p.value_dim, kMostDim));
  if (core::Status s = within_limits(p); !s.ok()) return s;
  if (core::Status s = dense_batch(p); !s.ok()) return s;
  if (core::Status s = sm90::check_tiles(divide_up(p.queries, 64) * p.heads * p.batch); !s.ok()) return s;
  return check_tensors(p);
}

std::string_view name_of(Variant variant) {
  switch (variant) {
    case Variant::plain:
      return "plain";
    case Variant::blocks:
      return "blocks";
    case Variant::changed:
      return "changed";
    default:
      return "general";
  }
}

std::string words(const core::Sizes& p, const Choice& c) {
  return fmt::format(
      "{} variant: tiles of {} rows, {} keys at a time, shared out{} to {} blocks, behind a pass that widens "
      "V{}",
      name_of(c.variant), c.config.rows(), c.config.keys,
      c.unequal && c.total > c.blocks ? ", long ones and short ones alike," : "", c.blocks,
      padding_words(p, c.config.dim, c.config.value_dim));
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  const Choice choice = choose(p, gpu_of(device).sms);
  auto made = std::make_shared<Steps>();
  if (core::Status s = add_steps(p, choice, gpu_of(device).index, made.get()); !s.ok()) return s;
  *out = made;
  return made->finish(gpu_of(device).index, choice.total,
                      [sizes = core::Sizes(p), choice] { return words(sizes, choice); });
}

}  // namespace

bool is_transposed(const core::Problem& p) { return p.kv.value_column_stride != 1; }
core::Tensor4 transposed(const core::Problem& p) {
  const core::Tensor4& v = p.kv.value;
  return {v.data, v.batch_stride, v.head_stride, p.kv.value_column_stride};
}

Choice choose(const core::Problem& p, int sms) {
  std::size_t row = 0;
  while (p.dim > kHeadDims[row].dim || p.value_dim > kHeadDims[row].value_dim) ++row;
  const Variant variant = variant_of(p);
  const sm90::Config config =
      config_for(kHeadDims[row].dim, kHeadDims[row].value_dim,
                 p.dtype == TESSERA_F8E4M3 ? sm90::Codes::e4m3 : sm90::Codes::e5m2, variant);
  Choice c{.variant = variant,
           .config = config,
           .row_tiles = std::max<std::int64_t>(divide_up(p.queries, config.rows()), 1),
           .total = 0,
           .unequal = later_rows_see_more(p),
           .blocks = 0};
  c.total = c.row_tiles * p.heads * p.batch;
  c.blocks = static_cast<int>(std::clamp<std::int64_t>(c.total, 1, sms));
  return c;
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "sm90_fp8";
  row.summary = "production for Hopper: 8-bit inputs, Q K by wgmma of 8 bits, P V of f16; head dims to 256";
  row.missing = [](const core::Device& device) { return sm90::missing_for_wgmma(device, in_build()); };
  row.supports = supports;
  row.estimate = [](const core::Problem& p, const core::Device& device) -> core::Estimate {
    const Choice c = choose(p, gpu_of(device).sms);
    return {rounds(c.total, gpu_of(device).sms) * c.config.rows() * row_us(p), ""};
  };
  row.prepare = prepare;
  row.arithmetic = core::Arithmetic::fp8_accurate;
  row.budget = {255, sm90::kMostSharedBytes, 288};  // spilled by `general` alone, as by sm90's
  row.symbol = "sm90_fp8::";
  row.only_arch = "sm_90a";
  return row;
}

}  // namespace tessera::cuda::sm90_fp8
