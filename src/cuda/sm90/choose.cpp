#include "cuda/sm90/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>

#include "core/plan.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/sm80/choose.hpp"
#include "cuda/sm90/launch.hpp"
#include "cuda/sm90/tensors.hpp"
#include "cuda/translate.hpp"

namespace tessera::cuda::sm90 {
namespace {

constexpr int kArch = 90;  // wgmma is Hopper's alone: no other arch runs this code

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

bool needs_general(const core::Problem& p) { return !plain_scores(p) || p.scale <= 0; }

std::string missing(const tessera_device& device) {
  std::string why;
  const runtime::Gpu* const gpu = runtime::find_gpu(device.index, &why);
  if (gpu == nullptr) return why;
  if (gpu->arch != kArch)
    return fmt::format("GPU {} ({}) is sm_{}; this kernel is for sm_{}", device.index, gpu->name, gpu->arch,
                       kArch);
  if (!in_build()) return "this build has no code for sm_90a";
  return "";
}

core::Status supports(const core::Problem& p) {
  if (p.dtype != TESSERA_F16 && p.dtype != TESSERA_BF16) {
    return core::unsupported(
        fmt::format("dtype is {}; f16 and bf16 are accepted", core::dtype_name(p.dtype)));
  }
  const int most = kHeadDims[std::size(kHeadDims) - 1].dim;
  if (p.dim > most || p.value_dim > most) {
    return core::unsupported(
        fmt::format("dim is {} and value dim {}; up to {} is accepted", p.dim, p.value_dim, most));
  }
  if (core::Status s = within_limits(p); !s.ok()) return s;
  // Positions in the list of tiles are ints, also those of a round or two past the end.
  constexpr std::int64_t kMostTiles = (std::int64_t{1} << 31) - (1 << 16);
  constexpr int kFewestRows = 32;
  if (const std::int64_t tiles = divide_up(p.queries, kFewestRows) * p.heads * p.batch; tiles > kMostTiles) {
    return core::unsupported(
        fmt::format("queries, heads and batch make {} row tiles; up to {} are accepted", tiles, kMostTiles));
  }
  return check_boxes(p);
}

// See Choice::share. A tile visits the keys that its last row sees: as many as a row sees on average, and
// half a tile more.
double share_of(const core::Problem& p, std::int64_t rows) {
  if (!later_rows_see_more(p) || p.queries == 0) return 1.0;
  const std::int64_t longest = std::min(p.position_offset(p.keys) + p.queries + p.right, p.keys);
  if (longest <= 0) return 1.0;
  const double average = core::visible_pairs(p) / static_cast<double>(p.queries);
  const double ahead = static_cast<double>(std::min(rows, p.queries) - 1) / 2;
  return std::min((average + ahead) / static_cast<double>(longest), 1.0);
}

// As many as there are SMs. But where tiles are taken in pairs and one of an odd number has no partner, some
// do without, so that it is not always the same blocks that get it.
int blocks_for(const Choice& c, int sms) {
  auto blocks = static_cast<int>(std::min<std::int64_t>(sms, c.total));
  const std::int64_t pairs = (c.row_tiles + 1) / 2;
  if (c.unequal && c.row_tiles % 2 == 1 && c.total > 2 * sms)
    while (std::gcd(pairs, blocks) > 1) --blocks;
  return blocks;
}

Choice choice_of(const core::Problem& p, Variant variant, int sms) {
  const HeadDims dims = padded_dims(p);
  const bool split = splits_keys(variant);
  const Tiling tiling = tiling_for(dims.dim, dims.value_dim, variant);
  Choice c{variant, tiling, divide_up(p.queries, tiling.rows), 0, !split && later_rows_see_more(p), 1.0, 0};
  c.total = c.row_tiles * p.heads * p.batch;
  // Most of what a block for few rows takes is getting started, however few its keys are.
  if (!split) c.share = share_of(p, tiling.passes_over ? 64 : tiling.rows);
  c.blocks = blocks_for(c, sms);
  return c;
}

// The cost model. A GPU works in rounds: every SM takes a tile, and the round lasts as long as a tile of that
// many rows does. Unequal tiles visit on average a share of the keys that the longest of a head visits, and
// are dealt out so that every SM has about the same to do: the busiest an eighth of the longest tile more, by
// and large, and no less than the longest tiles that fall to it.
//
//   time ~ rounds * rows a tile / rate
//   rounds: ceil(tiles / SMs), or max(tiles * share / SMs + 1/8, ceil(heads / SMs))
//
// Rates are of the plain variant's, as measured on an H200 (docs/sm90.md, "Which variant").
constexpr double kTallRate = 1.2;
// For head dims to 64, and beyond:
constexpr double kSplitRate[2] = {0.75, 0.6};
constexpr double kNarrowRate[2] = {0.43, 0.33};
constexpr double kSm80Rate[2] = {0.75, 0.54};
constexpr double kSm80SmallRate[2] = {0.48, 0.33};  // its own variant for few rows
// Below this tiles would be mostly padding (but for narrow's, which was not timed there), while sm80 fills
// its own with the heads that share K and V.
constexpr std::int64_t kFewestQueries = 64;

double rounds(std::int64_t pieces, int sms) { return static_cast<double>(divide_up(pieces, sms)); }

std::string rather_not(const core::Problem& p, const tessera_device& device) {
  if (p.queries < kFewestQueries) {
    return fmt::format("queries is {}; under {}, sm80 fills its tiles with the heads that share K and V",
                       p.queries, kFewestQueries);
  }
  const runtime::Gpu* const gpu = runtime::find_gpu(device.index, nullptr);
  if (gpu == nullptr) return "";
  const Choice c = choose(p, gpu->sms);
  const double here = estimate(c, gpu->sms), there = sm80_estimate(p, gpu->sms);
  if (here <= there) return "";
  return fmt::format("{} tiles of {} rows on {} SMs are estimated to take {:.2f} times as long as sm80's",
                     c.total, c.tiling.rows, gpu->sms, here / there);
}

std::string_view name_of(Variant variant) {
  return variant == Variant::plain    ? "plain"
         : variant == Variant::tall   ? "tall"
         : variant == Variant::split  ? "split"
         : variant == Variant::narrow ? "narrow"
                                      : "general";
}

core::Launch geometry(const core::Problem& p, const tessera_device& device) {
  core::Launch launch;
  const runtime::Gpu* const gpu = runtime::find_gpu(device.index, nullptr);
  if (gpu == nullptr) return launch;
  const Choice c = choose(p, gpu->sms);
  launch.work_items = c.total;
  launch.threads = c.tiling.threads;
  const std::string work =
      splits_keys(c.variant)
          ? fmt::format("a block each, keys shared by {} warpgroups", c.tiling.warpgroups)
          : fmt::format("shared out{} to {} blocks",
                        c.unequal && c.total > c.blocks ? ", long ones and short ones alike," : "", c.blocks);
  launch.reason =
      fmt::format("{} variant: tiles of {} rows, {} keys at a time, {}{}", name_of(c.variant), c.tiling.rows,
                  c.tiling.keys, work, padding_words(p, c.tiling.dim, c.tiling.value_dim));
  return launch;
}

core::Status launch(const core::Problem& p, const tessera_device& device, const core::Launch&) {
  std::string why;
  const runtime::Gpu* const gpu = runtime::find_gpu(device.index, &why);
  if (gpu == nullptr) return {TESSERA_DEVICE_UNAVAILABLE, why};
  return launch(p, choose(p, gpu->sms), device);
}

}  // namespace

HeadDims padded_dims(const core::Problem& p) {
  for (const HeadDims& d : kHeadDims) {
    if (p.dim <= d.dim && p.value_dim <= d.value_dim) return d;
  }
  return kHeadDims[std::size(kHeadDims) - 1];
}

double estimate(const Choice& c, int sms) {
  double tiles = rounds(c.total, sms);
  if (c.unequal && c.total > sms) {
    constexpr double kUneven = 1.0 / 8;
    tiles =
        std::max(static_cast<double>(c.total) * c.share / sms + kUneven, rounds(c.total / c.row_tiles, sms));
  }
  const int large = c.tiling.dim > 64 ? 1 : 0;
  const double rate = c.variant == Variant::tall     ? kTallRate
                      : c.variant == Variant::split  ? kSplitRate[large]
                      : c.variant == Variant::narrow ? kNarrowRate[large]
                                                     : 1.0;
  return tiles * c.tiling.rows / rate;
}

double sm80_estimate(const core::Problem& p, int sms) {
  const sm80::Variant variant = sm80::variant_for(p, kArch, sms);
  const sm80::Tiling tiling = sm80::tiling_for(p, kArch, variant);
  const int large = padded_dims(p).dim > 64 ? 1 : 0;
  const double share = share_of(p, tiling.rows / p.group());
  return std::max(rounds(tiling.blocks, sms) * share, 1.0) * tiling.rows /
         (variant == sm80::Variant::small ? kSm80SmallRate : kSm80Rate)[large];
}

Choice choose(const core::Problem& p, int sms) {
  if (needs_general(p)) return choice_of(p, Variant::general, sms);
  Choice best = choice_of(p, Variant::plain, sms);
  const auto consider = [&](Variant variant) {
    if (const Choice other = choice_of(p, variant, sms); estimate(other, sms) < estimate(best, sms))
      best = other;
  };
  const int dim = best.tiling.dim;
  if (has_tall(dim)) consider(Variant::tall);
  if (has_split(dim)) {
    consider(Variant::split);
    consider(Variant::narrow);
  }
  return best;
}

core::Kernel production_row() {
  core::Kernel row{};
  row.name = "sm90";
  row.summary =
      "production for Hopper: wgmma and TMA, a producer and two to four consumers; f16 "
      "and bf16, head dims to 256";
  row.missing = missing;
  row.supports = supports;
  row.rather_not = rather_not;
  row.geometry = geometry;
  row.launch = launch;
  row.budget = {255, kMostSharedBytes, 0};
  row.symbol = "sm90::attend";
  row.only_arch = "sm_90a";
  return row;
}

}  // namespace tessera::cuda::sm90
