// See bench_case.hpp.
#include "cli/bench_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "cases/gates.hpp"
#include "cli/check.hpp"
#include "cli/common.hpp"
#include "cli/floor.hpp"
#include "cli/measure.hpp"
#include "cli/term.hpp"
#include "core/plan.hpp"

namespace tessera::cli {
namespace {

struct Contender {
  const core::Kernel* kernel = nullptr;
  bool by_plan = false;
};

// Rungs from the lowest up, and behind them the kernels of no rung: what users get.
std::vector<Candidate> climbing(std::vector<Candidate> all) {
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    const auto height = [](const Candidate& c) { return c.kernel->rung == 0 ? 1000 : c.kernel->rung; };
    return height(a) < height(b);
  });
  // The table has the best kernel first; here it comes last.
  std::reverse(std::find_if(all.begin(), all.end(), [](const Candidate& c) { return c.kernel->rung == 0; }),
               all.end());
  return all;
}

// The plan's own choice, unless kernels were named; "all" is every kernel that runs here.
std::vector<Contender> contenders(const cases::Instance& instance, const BenchPlan& wish,
                                  const std::string& incumbent) {
  const core::Problem problem = validated(instance);
  const std::string& name = instance.shape().name;
  std::vector<Contender> chosen;
  const bool by_plan = wish.kernels.empty() && !wish.ladder;
  if (by_plan) {
    core::Plan plan;
    if (const core::Status s = core::plan(problem, wish.device, &plan); !s.ok())
      throw Stop(kExitUnavailable, fmt::format("case '{}': {}", name, s.message));
    chosen.push_back({plan.kernel, true});
  }
  const bool all = wish.ladder || std::count(wish.kernels.begin(), wish.kernels.end(), "all") > 0;
  std::vector<Candidate> here = candidates(wish.device, all ? std::vector<std::string>{} : wish.kernels);
  if (wish.ladder) here = climbing(std::move(here));
  for (const Candidate& each : here) {
    if (by_plan && each.name != incumbent) continue;
    const bool there = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const Contender& other) { return other.kernel == each.kernel; });
    if (there || !each.missing.empty()) continue;
    if (const core::Status s = core::takes(*each.kernel, problem); s.ok())
      chosen.push_back({each.kernel, false});
  }
  if (chosen.empty())
    throw Stop(kExitUnavailable, fmt::format("case '{}': no chosen kernel can compute it", name));
  return chosen;
}

void check_memory(const cases::Case& c, const tessera_device& device) {
  // Inputs, the copy they are checked against, outputs in float64.
  const double bytes = cases::work(c).bytes;
  if (3 * bytes > 0.8 * this_machine().memory_bytes)
    throw Stop(kExitUnavailable,
               fmt::format("case '{}' needs about {} of memory; this machine has {}", c.name,
                           si(3 * bytes, "B"), si(this_machine().memory_bytes, "B")));
  const cuda::runtime::Gpu* gpu = gpu_of(device);
  if (gpu == nullptr) return;
  const auto memory = static_cast<double>(gpu->memory_bytes);
  if (bytes > 0.9 * memory)
    throw Stop(kExitUnavailable, fmt::format("case '{}' needs {} of GPU memory; {} has {}", c.name,
                                             si(bytes, "B"), gpu->name, si(memory, "B")));
}

BenchRow verified_row(cases::Instance& instance, const cases::Expected& expected, const Contender& contender,
                      tessera_device device) {
  BenchRow row;
  row.shape = instance.shape();
  row.kernel = std::string(contender.kernel->name);
  row.by_plan = contender.by_plan;
  row.rung = contender.kernel->rung;
  row.tolerance = contender.kernel->tolerance;
  row.device = device_label(device);
  row.threads = device.kind == TESSERA_CPU ? resolve_threads(device.threads) : 0;
  device.kernel = row.kernel.c_str();
  const cases::Verdict verdict = cases::judge(instance, expected, device);
  row.verified = verdict.passed;
  row.worst_ratio = verdict.worst_ratio;
  row.verification =
      verdict.passed ? rows_judged(verdict) : fmt::format("{}\n    {}", verdict.why, verdict.reproduce);
  return row;
}

void time_on_cpu(const cases::Instance& instance, const BenchPlan& wish, const std::vector<BenchRow*>& rows) {
  std::vector<std::function<void()>> calls;
  calls.reserve(rows.size());
  for (BenchRow* row : rows) {
    calls.emplace_back([&instance, row, device = wish.device]() mutable {
      device.kernel = row->kernel.c_str();
      if (tessera_attend(&instance.problem(), &device) != TESSERA_OK)
        throw Stop(kExitFailed,
                   fmt::format("{} failed while being timed: {}", row->kernel, tessera_last_error()));
    });
  }
  const std::vector<Stats> stats = time_interleaved(calls, wish.min_time_s);
  const Floor floor = cpu_floor(instance.shape(), measure_for(instance.shape(), wish.device.threads));
  for (std::size_t n = 0; n < rows.size(); ++n) {
    rows[n]->stats = stats[n];
    rows[n]->floor_us = floor.us;
    rows[n]->wall = floor.which;
  }
}

void time_on_its_gpu(cases::Instance& instance, const BenchPlan& wish, const std::vector<BenchRow*>& rows) {
  cases::Mirror* mirror = nullptr;
  if (const core::Status s = instance.mirror(wish.device.index, &mirror); !s.ok())
    throw Stop(kExitUnavailable, s.message);
  const tessera_attention there = mirror->problem(instance.problem());
  std::vector<GpuCall> calls;
  calls.reserve(rows.size());
  for (BenchRow* row : rows) {
    calls.emplace_back([&there, row, device = wish.device](void* stream) mutable -> core::Status {
      device.kernel = row->kernel.c_str();
      device.stream = stream;
      const tessera_status status = tessera_attend(&there, &device);
      return {status, status == TESSERA_OK ? "" : tessera_last_error()};
    });
  }
  const cuda::runtime::Gpu& gpu = *gpu_of(wish.device);
  const std::vector<GpuTimes> times = time_on_gpu(gpu, calls, wish.min_time_s);
  const Gpu* limits = match_gpu(gpu.name);
  const Floor floor = limits == nullptr ? Floor{} : gpu_floor(instance.shape(), *limits);
  for (std::size_t n = 0; n < rows.size(); ++n) {
    rows[n]->stats = times[n].graph;
    rows[n]->gpu = times[n];
    rows[n]->floor_us = floor.us;
    rows[n]->wall = limits == nullptr ? "limits of this GPU are not in the table" : floor.which;
  }
}

}  // namespace

const cuda::runtime::Gpu* gpu_of(const tessera_device& device) {
  return device.kind == TESSERA_CUDA ? cuda::runtime::find_gpu(device.index, nullptr) : nullptr;
}

std::string device_label(const tessera_device& device) {
  const cuda::runtime::Gpu* gpu = gpu_of(device);
  return gpu == nullptr ? "cpu" : gpu->name;
}

std::vector<BenchRow> bench_case(const cases::Case& c, const BenchPlan& wish, const std::string& incumbent) {
  check_memory(c, wish.device);
  cases::Instance instance(c, cases::Input::normal, wish.seed);
  const std::vector<Contender> chosen = contenders(instance, wish, incumbent);
  const cases::Expected expected = cases::expect(instance);
  std::vector<BenchRow> rows;
  rows.reserve(chosen.size());
  for (const Contender& each : chosen) rows.push_back(verified_row(instance, expected, each, wish.device));
  std::vector<BenchRow*> timed;
  for (BenchRow& row : rows)
    if (row.verified) timed.push_back(&row);
  if (timed.empty()) return rows;
  if (wish.device.kind == TESSERA_CPU)
    time_on_cpu(instance, wish, timed);
  else
    time_on_its_gpu(instance, wish, timed);
  return rows;
}

}  // namespace tessera::cli
