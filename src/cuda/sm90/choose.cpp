#include "cuda/sm90/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string_view>

#include "cuda/estimate.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/steps.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90 {
namespace {

// Scores are more than scaled and hidden. Scales that are not positive change scores one by one, as softcap
// does.
bool needs_options(const core::Problem& p) { return !plain_scores(p) || p.scoring.scale <= 0; }

Variant option_variant(const core::Problem& p) {
  const bool alibi = p.scoring.alibi_slopes.data != nullptr;
  const bool changed = p.scoring.softcap > 0 || translate(p, 1).units.first != 1.0f;
  if (p.visibility.mask.kind != core::MaskKind::none || (alibi && changed)) return Variant::general;
  return alibi ? Variant::alibi : Variant::softcap;
}

core::Status supports(const core::Problem& p) {
  if (core::Status s = dense_only(p); !s.ok()) return s;
  if (core::Status s = tensor_cores_take(p, kHeadDims[std::size(kHeadDims) - 1].dim); !s.ok()) return s;
  constexpr int kFewestRows = 32;
  if (core::Status s = check_tiles(divide_up(p.queries, kFewestRows) * p.heads * p.batch); !s.ok()) return s;
  return check_boxes(p);
}

// Tiles that have no partner where they are taken in pairs: the same ones of every head.
bool some_alone(const Choice& c, int sms) {
  return c.unequal && c.row_tiles % 2 == 1 && c.total > 2 * sms * c.tiling.teams;
}
std::int64_t pairs_of_head(const Choice& c) { return (c.row_tiles + 1) / 2; }

// As many as there are SMs. But where some tiles have no partner, some SMs do without a block, so that it is
// not always the same blocks that get them.
int blocks_for(const Choice& c, int sms) {
  auto blocks = static_cast<int>(std::min<std::int64_t>(sms, c.total));
  if (some_alone(c, sms) && c.tiling.teams == 1)
    while (std::gcd(pairs_of_head(c), blocks) > 1) --blocks;
  return blocks;
}

Choice choice_of(const core::Problem& p, Variant variant, int sms) {
  const HeadDims dims = padded_dims(p);
  const bool split = splits_keys(variant);
  const Tiling tiling = tiling_for(dims.dim, dims.value_dim, variant);
  Choice c{variant,
           tiling,
           divide_up(p.queries, tiling.rows),
           0,
           !split && later_rows_see_more(p),
           1.0,
           visited_keys(p, tiling.rows),
           0};
  c.total = c.row_tiles * p.heads * p.batch;
  // Most of what a block for few rows takes is getting started, however few its keys are.
  if (!split) c.share = share_of(p, tiling.passes_over ? 64 : tiling.rows);
  c.blocks = blocks_for(c, sms);
  return c;
}

// The cost model: estimate.hpp's, and this. Unequal tiles visit on average a share of the keys that the
// longest of a head visits, and are dealt out so that every SM has about the same to do: the busiest an
// eighth of the longest tile more, by and large, and no less than the longest tiles that fall to it.
//
//   rounds: ceil(tiles / SMs), or max(tiles * share / SMs + 1/8, ceil(heads / SMs))
//
// Of twin's tiles an SM has two at a time, and the last of an odd number alone.
//
// Rates are of the plain variant's, as measured on an H200 (docs/sm90.md, "Which variant").
// For head dims to 64, and beyond:
constexpr double kTallRate[2] = {1.2, 1.08};
constexpr double kSplitRate[2] = {0.75, 0.6};
constexpr double kNarrowRate[2] = {0.43, 0.33};
// Two tiles, which gain on tall's where a tile visits few keys; a tile alone.
constexpr double kTwinRate = 1.19, kTwinRateFewKeys = 1.26, kTwinAloneRate = 0.7;
constexpr double kFewKeys = 1024;
constexpr std::int64_t kFewestQueries = 64;

core::Estimate estimate(const core::Problem& p, const core::Device& device) {
  if (p.queries < kFewestQueries)
    return {.why = "with under 64 queries its tiles are mostly padding, and it was not timed there"};
  return {estimate(choose(p, gpu_of(device).sms), gpu_of(device).sms) * row_us(p), ""};
}

std::string_view name_of(Variant variant) {
  return variant == Variant::plain     ? "plain"
         : variant == Variant::tall    ? "tall"
         : variant == Variant::twin    ? "twin"
         : variant == Variant::split   ? "split"
         : variant == Variant::narrow  ? "narrow"
         : variant == Variant::alibi   ? "alibi"
         : variant == Variant::softcap ? "softcap"
                                       : "general";
}

std::string words(const core::Sizes& p, const Choice& c) {
  const std::string work =
      splits_keys(c.variant)
          ? fmt::format("a block each, keys shared by {} warpgroups", c.tiling.warpgroups)
          : fmt::format("shared out{} to {} blocks{}",
                        c.unequal && c.total > c.blocks ? ", long ones and short ones alike," : "", c.blocks,
                        c.tiling.teams == 2 ? " that take two at a time" : "");
  return fmt::format("{} variant: tiles of {} rows, {} keys at a time, {}{}", name_of(c.variant),
                     c.tiling.rows, c.tiling.keys, work, padding_words(p, c.tiling.dim, c.tiling.value_dim));
}

core::Status prepare(const core::Problem& p, const core::Device& device,
                     std::shared_ptr<const core::Prepared>* out) {
  const Choice choice = choose(p, gpu_of(device).sms);
  auto made = std::make_shared<Steps>();
  mask::Layout layout;
  if (p.visibility.mask.kind != core::MaskKind::none) {
    layout = mask::layout_of(p, true, choice.total);
    if (core::Status s = mask::make_pass(p, layout, true, &made->add()); !s.ok()) return s;
    made->add_workspace(layout.bytes);
  }
  if (core::Status s = make_step(p, choice, layout, gpu_of(device).index, &made->add()); !s.ok()) return s;
  *out = made;
  return made->finish(gpu_of(device).index, choice.total,
                      [sizes = core::Sizes(p), choice] { return words(sizes, choice); });
}

}  // namespace

std::string missing_for_wgmma(const core::Device& device, bool in_build) {
  constexpr int kArch = 90;
  const runtime::Gpu& gpu = gpu_of(device);
  if (gpu.arch != kArch)
    return fmt::format("GPU {} ({}) is sm_{}; this kernel is for sm_{}", gpu.index, gpu.name, gpu.arch,
                       kArch);
  return in_build ? "" : "this build has no code for sm_90a";
}

core::Status check_tiles(std::int64_t tiles) {
  constexpr std::int64_t kMostTiles = (std::int64_t{1} << 31) - (1 << 16);
  if (tiles <= kMostTiles) return {};
  return core::unsupported(
      fmt::format("queries, heads and batch make {} row tiles; up to {} are accepted", tiles, kMostTiles));
}

HeadDims padded_dims(const core::Problem& p) {
  for (const HeadDims& d : kHeadDims) {
    if (needs_options(p) && !has_options(d.dim)) continue;
    if (p.dim <= d.dim && p.value_dim <= d.value_dim) return d;
  }
  return kHeadDims[std::size(kHeadDims) - 1];
}

double estimate(const Choice& c, int sms) {
  const int large = c.tiling.dim > 64 ? 1 : 0;
  const double rate = c.variant == Variant::tall     ? kTallRate[large]
                      : c.variant == Variant::twin   ? (c.visited <= kFewKeys ? kTwinRateFewKeys : kTwinRate)
                      : c.variant == Variant::split  ? kSplitRate[large]
                      : c.variant == Variant::narrow ? kNarrowRate[large]
                                                     : 1.0;
  // What an SM takes for n whole tiles.
  const auto time_of = [&](double n) {
    const double alone = c.tiling.teams == 2 ? std::fmod(n, 2) : 0;
    return (n - alone) / rate + alone / kTwinAloneRate;
  };
  double time = time_of(rounds(c.total, sms));
  if (c.unequal && c.total > sms) {
    constexpr double kUneven = 1.0 / 8;
    time = std::max((static_cast<double>(c.total) * c.share / sms + kUneven) / rate,
                    time_of(rounds(c.total / c.row_tiles, sms)));
  }
  return time * c.tiling.rows;
}

Choice choose(const core::Problem& p, int sms) {
  if (needs_options(p)) return choice_of(p, option_variant(p), sms);
  Choice best = choice_of(p, Variant::plain, sms);
  const auto consider = [&](Variant variant) {
    if (const Choice other = choice_of(p, variant, sms); estimate(other, sms) < estimate(best, sms))
      best = other;
  };
  const int dim = best.tiling.dim;
  if (has_tall(dim)) consider(Variant::tall);
  // Two teams take an even number of pairs at a time: those without a partner would fall to the same ones.
  if (const Choice twin = choice_of(p, Variant::twin, sms);
      has_twin(dim) && !(some_alone(twin, sms) && pairs_of_head(twin) % 2 == 0))
    consider(Variant::twin);
  if (has_split(dim)) {
    consider(Variant::split);
    consider(Variant::narrow);
  }
  return best;
}

core::Kernel production_row() {
  core::Kernel row;
  row.name = "sm90";
  row.summary =
      "production for Hopper: wgmma and TMA, a producer and two to four consumers; f16 "
      "and bf16, head dims to 256";
  row.missing = [](const core::Device& device) { return missing_for_wgmma(device, in_build()); };
  row.supports = supports;
  row.estimate = [](const core::Problem& p, const core::Device& device) { return estimate(p, device); };
  row.prepare = prepare;
  row.budget = {255, kMostSharedBytes, 288};  // spilled by `general` alone: docs/sm90.md
  row.symbol = "sm90::";
  row.only_arch = "sm_90a";
  return row;
}

}  // namespace tessera::cuda::sm90
