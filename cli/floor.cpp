// Roofline arithmetic; see floor.hpp. A floor assumes perfect overlap: the highest wall, not the sum.
#include "cli/floor.hpp"

#include <fmt/format.h>

#include "cli/term.hpp"

namespace tessera::cli {
namespace {

Floor highest(std::vector<Wall> walls) {
  Floor floor{std::move(walls), 0, "no work"};
  for (const Wall& wall : floor.walls)
    if (wall.applies && wall.us > floor.us) floor.us = wall.us, floor.which = wall.name;
  return floor;
}

}  // namespace

double exponentials(const cases::Case& c) {
  return cases::work(c).flops / (2.0 * static_cast<double>(c.dim + c.value_dim));
}

Floor gpu_floor(const cases::Case& c, const Gpu& gpu) {
  const cases::Work work = cases::work(c);
  const double rate = gpu.tflops(c.dtype) * 1e12;
  const double bandwidth = gpu.memory_gbps * 1e9;
  const double exps = exponentials(c);
  const bool in_l2 = work.bytes <= gpu.l2_mb * 1e6;

  Wall arithmetic{
      "arithmetic", rate > 0 ? work.flops / rate * 1e6 : 0,
      fmt::format("{} / {} {}", si(work.flops, "FLOP"), si(rate, "FLOP/s"), tessera_dtype_name(c.dtype))};
  Wall exponential{"exponentials", exps / gpu.exps_per_s() * 1e6,
                   fmt::format("{} / ({} a clock × {} SMs × {:.2f} GHz)", si(exps, " exp"),
                               gpu.exps_per_clock_per_sm, gpu.sms, gpu.clock_ghz)};
  Wall memory{"memory", work.bytes / bandwidth * 1e6,
              fmt::format("{} / {}{}", si(work.bytes, "B"), si(bandwidth, "B/s"),
                          in_l2 ? fmt::format("; only when cold: it fits in {:g} MB of L2", gpu.l2_mb) : ""),
              !in_l2};
  return highest({arithmetic, exponential, memory});
}

Floor cpu_floor(const cases::Case& c, const CpuRates& rates) {
  const cases::Work work = cases::work(c);
  return highest(
      {Wall{"arithmetic", work.flops / rates.flops_per_s * 1e6,
            fmt::format("{} / {} (f32 FMA)", si(work.flops, "FLOP"), si(rates.flops_per_s, "FLOP/s"))},
       Wall{"memory", work.bytes / rates.bytes_per_s * 1e6,
            fmt::format("{} / {} (a buffer of this size, read again and again)", si(work.bytes, "B"),
                        si(rates.bytes_per_s, "B/s"))}});
}

}  // namespace tessera::cli
