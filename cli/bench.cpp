// `tessera bench`: verifies, then times; what fails verification is never timed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/bench_case.hpp"
#include "cli/bench_report.hpp"
#include "cli/common.hpp"
#include "cli/json.hpp"
#include "cli/measure.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/values.hpp"

namespace tessera::cli {
namespace {

struct BenchOptions {
  CaseFlags cases;
  DeviceFlags device;
  double min_time_s = 0;  // 0: half a second of a CPU, less of a GPU
  std::uint64_t seed = 1;
  std::string save, against, leaderboard;
  double tolerance_percent = 5;
  bool ladder = false;
  bool json = false;
};

std::vector<cases::Case> default_cases(const BenchOptions& options, const tessera_device& device) {
  std::vector<std::string> groups = {"cpu"};
  if (device.kind == TESSERA_CUDA) groups = {"mission", "canonical", "prefill", "decode", "costs"};
  if (options.ladder)
    return {*cases::find("mission512"), *cases::find("canon_1"), *cases::find("canon_1_causal")};
  std::vector<cases::Case> chosen;
  for (const std::string& group : groups)
    for (const cases::Case& c : cases::in_group(group)) chosen.push_back(c);
  return chosen;
}

BenchPlan plan_of(const BenchOptions& options, const tessera_device& device) {
  BenchPlan plan;
  plan.device = device;
  plan.kernels = options.device.kernels;
  plan.ladder = options.ladder;
  plan.seed = options.seed;
  plan.min_time_s = options.min_time_s > 0 ? options.min_time_s : device.kind == TESSERA_CPU ? 0.5 : 0.2;
  return plan;
}

Json machine_json(const tessera_device& device, const gpu::GpuState& before) {
  const cuda::runtime::Gpu* gpu = gpu_of(device);
  return gpu == nullptr ? cpu_machine_json() : gpu_machine_json(*gpu, before, gpu::gpu_state(device.index));
}

int bench(const BenchOptions& options) {
  const tessera_device device = options.device.resolve();
  if (options.ladder && device.kind == TESSERA_CPU)
    usage_error("--ladder is about the rungs on a GPU; add --device cuda");
  if (options.ladder && !options.device.kernels.empty())
    usage_error("--ladder times every rung; --kernel picks kernels without it");
  const std::vector<cases::Case> chosen = options.cases.resolve(default_cases(options, device));
  if (!options.save.empty() && options.save == options.leaderboard)
    usage_error(
        fmt::format("--save and --leaderboard both name {}; give each a file of its own", options.save));
  // Files are read first: a bad path should not cost a minute of timing.
  SavedResults saved{options.against, Json(), options.tolerance_percent};
  if (!options.against.empty()) {
    saved.content = read_json(options.against);
    (void)compare({}, saved.content, options.against, options.tolerance_percent);
  }
  const Json board = options.leaderboard.empty() ? Json() : read_leaderboard(options.leaderboard);
  for (const std::string* path : {&options.save, &options.leaderboard})
    if (!path->empty()) check_writable(*path);
  for (const cases::Case& c : chosen) (void)validated(c);

  const BenchPlan plan = plan_of(options, device);
  const int threads = device.kind == TESSERA_CPU ? resolve_threads(device.threads) : 0;
  const auto before = device.kind == TESSERA_CUDA ? gpu::gpu_state(device.index) : gpu::GpuState{};
  std::vector<BenchRow> rows;
  {
    Progress progress("bench", chosen.size());
    for (const cases::Case& c : chosen) {
      const std::string incumbent =
          options.leaderboard.empty() ? "" : leader(board, c, threads, device_label(device));
      const auto more = bench_case(c, plan, incumbent);
      rows.insert(rows.end(), more.begin(), more.end());
      progress.tick(c.name);
    }
  }
  const Json machine = machine_json(device, before);
  Json report = bench_json(rows, machine);
  if (options.ladder) print_ladder(rows, machine, options.json, report);
  if (!options.save.empty()) write_json(options.save, report);
  if (!options.json && !options.ladder) print_rows(rows, machine);
  bool well = std::all_of(rows.begin(), rows.end(), [](const BenchRow& row) { return row.verified; });
  if (!options.against.empty()) well = gate(rows, saved, options.json, report) && well;
  if (!options.leaderboard.empty()) lead(rows, options.leaderboard, board, options.json, report);
  if (options.json) print_json(report);
  if (!options.save.empty() && !options.json) fmt::print("\nSaved to {}\n", options.save);
  return well ? kExitOk : kExitFailed;
}

constexpr const char* kBenchFooter =
    R"(Every kernel is verified in the same run first; what fails is not timed. Several kernels are timed in
interleaved rounds. "of floor" is the least possible time over the p50: 100% is the machine's limit. On a CPU
the limit is its multiply-add rate and its rate of reading a buffer of the case's size, both measured in the
same run; on a GPU it comes from the published rates (`tessera roofline`).

On a GPU p50 to std are of calls inside a CUDA graph, "single" is from call to result, "cold L2" is a call
after the cache was overwritten, "host" is the host's time for a launch of nothing + what the call takes over it.

Examples:
  tessera bench                                                the CPU cases, with the kernels the plan chooses
  tessera bench mission512 canon_3_causal --threads 1
  tessera bench --group cpu --kernel all --min-time 1
  tessera bench --save before.json && tessera bench --against before.json --tolerance 3
  tessera bench --kernel all --leaderboard bench/results/cpu/leaderboard.json
  tessera bench --device cuda                                  the cases people measure on GPUs
  tessera bench --device cuda --ladder canon_1                 every rung, with what each step gains

Exit code 1: failed verification, or a regression. `tessera --help` has all codes.)";

}  // namespace

void add_bench(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb = app.add_subcommand("bench", "Verify, then time kernels against the machine's limits");
  options->cases.add_to(*verb);
  options->device.add_to(
      *verb, "Time this kernel instead of the plan's choice; may be repeated; 'all' for every one");
  verb->add_flag("--ladder", options->ladder,
                 "Every rung of the ladder on a GPU, with the gain of each over the one below");
  real_number(verb->add_option("--min-time", options->min_time_s,
                               "Seconds of samples per kernel and case [0.5 on a CPU, 0.2 on a GPU]"),
              0.001, 3600)
      ->type_name("S");
  add_seed(*verb, &options->seed);
  file_name(verb->add_option("--save", options->save, "Write the results to this JSON file"));
  file_name(
      verb->add_option("--against", options->against, "Compare with a saved file; exit 1 on a regression"));
  real_number(verb->add_option("--tolerance", options->tolerance_percent,
                               "How much slower is accepted by --against, in percent"),
              0, 1e9)
      ->type_name("PERCENT")
      ->capture_default_str();
  file_name(verb->add_option("--leaderboard", options->leaderboard,
                             "Enter the fastest kernel of each case if it leads by 3%"));
  verb->add_flag("--json", options->json, "The result as JSON on stdout");
  verb->footer(kBenchFooter);
  verb->callback([options, exit_code] { *exit_code = bench(*options); });
}

}  // namespace tessera::cli
