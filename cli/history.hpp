// Benchmark results that outlive a run: saved files, the regression gate, the leaderboard.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cases/case.hpp"
#include "cases/gpu/memory.hpp"
#include "cli/gpu_timing.hpp"
#include "cli/json.hpp"
#include "cli/timing.hpp"

namespace tessera::cli {

struct BenchRow {
  cases::Case shape;
  std::string kernel;
  bool by_plan = false;        // the kernel the plan chooses, not one named by --kernel
  std::string device = "cpu";  // or the GPU's name
  int threads = 1;             // of the CPU; 0 on a GPU
  bool verified = false;
  std::string verification;  // what was compared, or why it failed
  double worst_ratio = 0;
  Stats stats;  // of single calls on a CPU, of graph replays on a GPU
  double floor_us = 0;
  std::string wall;
  int rung = 0;          // of the ladder
  double tolerance = 0;  // what it was judged by, if not by the derived bound
  std::optional<GpuTimes> gpu;

  [[nodiscard]] double gflops() const { return cases::work(shape).flops / stats.p50_us / 1e3; }
  [[nodiscard]] double gbps() const { return cases::work(shape).bytes / stats.p50_us / 1e3; }
  [[nodiscard]] double floor_percent() const { return floor_us / stats.p50_us * 100; }
};

// Where the times come from: one of these is part of every saved file.
Json cpu_machine_json();
// Clocks, temperature and power come and go, so they are asked for before and after.
Json gpu_machine_json(const cuda::runtime::Gpu& gpu, const gpu::GpuState& before, const gpu::GpuState& after);

// The whole run as JSON: date, commit, machine, compiler, command, one entry per row.
Json bench_json(const std::vector<BenchRow>& rows, const Json& machine = cpu_machine_json());

struct Comparison {
  std::string case_name, kernel, baseline_kernel;
  double now_us = 0, before_us = 0;
  bool known = false;  // the file has this case
  bool regressed = false;
  [[nodiscard]] double change_percent() const { return (now_us / before_us - 1) * 100; }
};
// Rows matched by case words, device and threads: with the same kernel's entry, else with the case's fastest.
std::vector<Comparison> compare(const std::vector<BenchRow>& rows, const Json& saved, const std::string& path,
                                double tolerance_percent);

inline constexpr double kEntryGainPercent = 3;

struct LeaderboardEntry {
  std::string case_name, kernel;
  double p50_us = 0;
  bool entered = false;
  std::string why;
};

// The kernel that leads a case in the file on this device with this thread count; "" if none.
std::string leader(const Json& board, const cases::Case& c, int threads, const std::string& device = "cpu");

// For every case the fastest row of this run enters if it beats the leader by kEntryGainPercent. The
// leader's time is the one of this run where it ran (only such times compare), else the recorded one.
std::vector<LeaderboardEntry> enter(Json& board, const std::vector<BenchRow>& rows);

Json read_leaderboard(const std::string& path);  // an empty one if there is no such file

}  // namespace tessera::cli
