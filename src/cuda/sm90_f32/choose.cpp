#include "cuda/sm90_f32/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cuda/estimate.hpp"
#include "cuda/sm90/choose.hpp"
#include "cuda/sm90/config.hpp"
#include "cuda/sm90_f32/launch.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90_f32 {
namespace {

core::Status supports(const core::Problem& p) {
  if (core::Status s = f32_tensor_cores_take(p, kHeadDims[std::size(kHeadDims) - 1].dim); !s.ok()) return s;
  constexpr int kFewestRows = 64;
  return sm90::check_tiles(divide_up(p.queries * p.group(), kFewestRows) * p.kv_heads * p.batch);
}

Config config_of(const core::Problem& p, Variant variant) {
  std::size_t row = 0;
  while (p.dim > kHeadDims[row].dim || p.value_dim > kHeadDims[row].value_dim) ++row;
  return config_for(kHeadDims[row].dim, kHeadDims[row].value_dim, variant);
}

std::string words(const core::Sizes& p, const Choice& c) {
  return fmt::format("{} variant: tiles of {} rows, {} keys at a time, shared out{} to {} blocks{}{}",
                     c.variant == Variant::plain ? "plain" : "general", c.config.rows(), c.config.keys,
                     c.unequal && c.total > c.blocks ? ", long ones and short ones alike," : "", c.blocks,
                     p.group() > 1 ? fmt::format(", {} heads share their K and V", p.group()) : "",
                     padding_words(p, c.config.dim, c.config.value_dim));
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  const Choice choice = choose(p, gpu_of(device).sms);
  auto made = std::make_shared<Steps>();
  set_step(p, choice, &made->add());
  *out = made;
  return made->finish(gpu_of(device).index, choice.total,
                      [sizes = core::Sizes(p), choice] { return words(sizes, choice); });
}

// Of the rate of sm90's plain variant, as measured on an H200, for head dims to 128 and beyond: six products
// for one, and past 128 a single consumer, under whose softmax nothing is multiplied.
constexpr double kRate[2] = {0.14, 0.07};

}  // namespace

Choice choose(const core::Problem& p, int sms) {
  const Variant variant = !plain_scores(p) || p.scoring.scale <= 0 ? Variant::general : Variant::plain;
  const Config config = config_of(p, variant);
  Choice c{variant,
           config,
           divide_up(p.queries * p.group(), config.rows()),
           0,
           later_rows_see_more(p),
           share_of(p, config.rows() / p.group()),
           0};
  c.total = c.row_tiles * p.kv_heads * p.batch;
  c.blocks = static_cast<int>(std::min<std::int64_t>(sms, c.total));
  return c;
}

double estimate(const Choice& c, int sms) {
  const double tiles = c.unequal && c.total > sms
                           ? std::max(static_cast<double>(c.total) * c.share / sms, 1.0)
                           : rounds(c.total, sms);
  return tiles * c.config.rows() / kRate[c.config.dim > 128 ? 1 : 0];
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "sm90_f32";
  row.summary = "production for Hopper: f32 by wgmma on three bf16 parts of every number; head dims to 256";
  row.missing = [](const core::Device& device) { return sm90::missing_for_wgmma(device, in_build()); };
  row.supports = supports;
  row.estimate = [](const core::Problem& p, const core::Device& device) -> core::Estimate {
    const int sms = gpu_of(device).sms;
    return {estimate(choose(p, sms), sms) * row_us(p), ""};
  };
  row.prepare = prepare;
  row.budget = {255, sm90::kMostSharedBytes, 0};
  row.symbol = "sm90_f32::attend<";
  row.only_arch = "sm_90a";
  return row;
}

}  // namespace tessera::cuda::sm90_f32
