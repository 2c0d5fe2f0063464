// `tessera bench`: verifies, then times; what fails verification is never timed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "cases/gates.hpp"
#include "cli/check.hpp"
#include "cli/common.hpp"
#include "cli/history.hpp"
#include "cli/json.hpp"
#include "cli/measure.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "core/plan.hpp"

namespace tessera::cli {
namespace {

// A run whose p90 is further than this from its p50 was disturbed.
constexpr double kSteadyRatio = 1.2;

struct Options {
  CaseFlags cases;
  DeviceFlags device;
  double min_time_s = 0.5;
  std::uint64_t seed = 1;
  std::string save, against, leaderboard;
  double tolerance_percent = 5;
  bool json = false;
};

struct Contender {
  std::string kernel;
  bool by_plan = false;
};

// The plan's own choice, unless kernels were named; "all" is every kernel that runs here.
std::vector<Contender> contenders(const cases::Case& c, const Options& options, const tessera_device& device,
                                  const std::string& incumbent) {
  const core::Problem problem = validated(c);
  std::vector<Contender> chosen;
  if (options.device.kernels.empty()) {
    core::Plan plan;
    if (const core::Status s = core::plan(problem, device, &plan); !s.ok())
      throw Stop(kExitUnavailable, fmt::format("case '{}': {}", c.name, s.message));
    chosen.push_back({std::string(plan.kernel->name), true});
  }
  const bool all = std::count(options.device.kernels.begin(), options.device.kernels.end(), "all") > 0;
  const auto named = all ? std::vector<std::string>{} : options.device.kernels;
  for (const Candidate& each : candidates(device, named)) {
    if (options.device.kernels.empty() && each.name != incumbent) continue;
    const bool there = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const Contender& c0) { return c0.kernel == each.name; });
    if (there || !each.missing.empty()) continue;
    if (const core::Status s = each.kernel->supports(problem); s.ok()) chosen.push_back({each.name, false});
  }
  if (chosen.empty())
    throw Stop(kExitUnavailable, fmt::format("case '{}': no chosen kernel can compute it", c.name));
  return chosen;
}

void check_memory(const cases::Case& c) {
  const double needed =
      3 * cases::work(c).bytes;  // inputs, the copy they are checked against, outputs in float64
  if (needed > 0.8 * this_machine().memory_bytes)
    throw Stop(kExitUnavailable, fmt::format("case '{}' needs about {} of memory; this machine has {}",
                                             c.name, si(needed, "B"), si(this_machine().memory_bytes, "B")));
}

std::vector<BenchRow> bench_case(const cases::Case& c, const Options& options, tessera_device device,
                                 const std::string& incumbent) {
  check_memory(c);
  cases::Instance instance(c, cases::Input::normal, options.seed);
  const cases::Expected expected = cases::expect(instance);
  std::vector<BenchRow> rows;
  for (const Contender& each : contenders(c, options, device, incumbent)) {
    BenchRow row{c, each.kernel, each.by_plan, resolve_threads(device.threads), false, "", 0, {}, 0, ""};
    device.kernel = each.kernel.c_str();
    const cases::Verdict verdict = cases::judge(instance, expected, device);
    row.verified = verdict.passed;
    row.worst_ratio = verdict.worst_ratio;
    row.verification =
        verdict.passed ? rows_judged(verdict) : fmt::format("{}\n    {}", verdict.why, verdict.reproduce);
    rows.push_back(row);
  }
  std::vector<std::function<void()>> calls;
  std::vector<BenchRow*> timed;
  for (BenchRow& row : rows) {
    if (!row.verified) continue;
    timed.push_back(&row);
    calls.emplace_back([&instance, &row, call_device = device]() mutable {
      call_device.kernel = row.kernel.c_str();
      if (tessera_attend(&instance.problem(), &call_device) != TESSERA_OK)
        throw Stop(kExitFailed,
                   fmt::format("{} failed while being timed: {}", row.kernel, tessera_last_error()));
    });
  }
  if (timed.empty()) return rows;
  const std::vector<Stats> stats = time_interleaved(calls, options.min_time_s);
  const Floor floor = cpu_floor(c, measure_for(c, device.threads));
  for (std::size_t t = 0; t < timed.size(); ++t) {
    timed[t]->stats = stats[t];
    timed[t]->floor_us = floor.us;
    timed[t]->wall = floor.which;
  }
  return rows;
}

void print_rows(const std::vector<BenchRow>& rows) {
  const auto right = Table::Side::right;
  Table table({{"case"},
               {"kernel"},
               {"p50 µs", right},
               {"p90", right},
               {"p99", right},
               {"mean", right},
               {"std", right},
               {"GFLOP/s", right},
               {"GB/s", right},
               {"of floor", right},
               {"wall"}});
  const auto us = [](double value) { return value < 100 ? fmt::format("{:.1f}", value) : grouped(value); };
  for (const BenchRow& row : rows) {
    if (!row.verified) {
      table.add({row.shape.name, row.kernel, "-", "-", "-", "-", "-", "-", "-", "-",
                 paint(Ink::red, "not timed: failed verification")});
      continue;
    }
    const Stats& s = row.stats;
    table.add({row.shape.name, row.kernel, paint(Ink::bold, us(s.p50_us)), us(s.p90_us), us(s.p99_us),
               us(s.mean_us), us(s.std_us), fmt::format("{:.1f}", row.gflops()),
               fmt::format("{:.1f}", row.gbps()), fmt::format("{:.0f}%", row.floor_percent()),
               paint(Ink::dim, row.wall)});
  }
  fmt::print("{}, {} thread{}, {}, {}\n\n", paint(Ink::bold, this_machine().cpu), rows.front().threads,
             rows.front().threads == 1 ? "" : "s", compiler(), commit());
  fmt::print("{}\nVerified before timing (error / bound):\n", table.text());
  for (const BenchRow& row : rows) {
    if (row.verified)
      fmt::print("  {} {} {}: {:.3f}, {}\n", paint(Ink::green, "✓"), row.shape.name, row.kernel,
                 row.worst_ratio, row.verification);
    else
      fmt::print("  {} {} {}: {}\n", paint(Ink::red, "✗"), row.shape.name, row.kernel, row.verification);
  }
  const auto noisy = std::count_if(rows.begin(), rows.end(), [](const BenchRow& row) {
    return row.verified && row.stats.p90_us > kSteadyRatio * row.stats.p50_us;
  });
  if (noisy > 0)
    fmt::print("{}\n", paint(Ink::yellow,
                             fmt::format("  On {} of {} rows p90 is over {:g} × p50: this machine was busy, "
                                         "and the times are worth little.",
                                         noisy, rows.size(), kSteadyRatio)));
}

bool gate(const std::vector<BenchRow>& rows, const Options& options, const Json& saved, Json& report) {
  const auto right = Table::Side::right;
  Table table({{"case"}, {"kernel"}, {"before µs", right}, {"now µs", right}, {"change", right}, {""}});
  bool regressed = false;
  for (const Comparison& c : compare(rows, saved, options.against, options.tolerance_percent)) {
    Json json = {{"case", c.case_name}, {"kernel", c.kernel}, {"known", c.known}, {"regressed", c.regressed}};
    regressed = regressed || c.regressed;
    if (!c.known) {
      table.add({c.case_name, c.kernel, "-", fmt::format("{:.1f}", c.now_us), "-",
                 paint(Ink::dim, "not in the file")});
    } else {
      const double change = c.change_percent();
      json.update({{"before_us", c.before_us}, {"now_us", c.now_us}, {"change_percent", change}});
      const bool faster = change < -options.tolerance_percent;
      table.add({c.case_name, c.baseline_kernel == c.kernel ? c.kernel : c.baseline_kernel + " → " + c.kernel,
                 fmt::format("{:.1f}", c.before_us), fmt::format("{:.1f}", c.now_us),
                 fmt::format("{:+.1f}%", change),
                 c.regressed ? paint(Ink::red, "slower")
                 : faster    ? paint(Ink::green, "faster")
                             : ""});
    }
    report["comparison"].push_back(json);
  }
  report["regressed"] = regressed;
  if (options.json) return !regressed;
  const std::string machine = saved.value("/machine/cpu"_json_pointer, std::string());
  fmt::print("\nAgainst {} (up to {:g}% slower is accepted):\n{}", options.against, options.tolerance_percent,
             table.text());
  if (machine != this_machine().cpu)
    fmt::print(
        "{}\n",
        paint(Ink::yellow,
              fmt::format("  That file is from another machine ({}): only times of one machine compare.",
                          machine.empty() ? "unknown" : machine)));
  fmt::print("  {}\n", regressed ? paint(Ink::red, "REGRESSION") : paint(Ink::green, "no regression"));
  return !regressed;
}

void lead(const std::vector<BenchRow>& rows, const Options& options, Json board, Json& report) {
  const std::vector<LeaderboardEntry> outcome = enter(board, rows);
  if (!options.json) fmt::print("\nLeaderboard {}:\n", options.leaderboard);
  bool changed = false;
  for (const LeaderboardEntry& each : outcome) {
    changed = changed || each.entered;
    report["leaderboard"].push_back({{"case", each.case_name},
                                     {"kernel", each.kernel},
                                     {"p50_us", each.p50_us},
                                     {"entered", each.entered},
                                     {"why", each.why}});
    if (!options.json)
      fmt::print("  {} {} with {} ({}): {}\n", each.case_name,
                 each.entered ? paint(Ink::green, "entered") : paint(Ink::dim, "not entered"), each.kernel,
                 microseconds(each.p50_us), each.why);
  }
  if (changed) write_json(options.leaderboard, board);
}

int bench(const Options& options) {
  const tessera_device device = options.device.resolve();
  const std::vector<cases::Case> chosen = options.cases.resolve(cases::in_group("cpu"));
  // Files are read first: a bad path should not cost a minute of timing.
  const Json saved = options.against.empty() ? Json() : read_json(options.against);
  if (!options.against.empty()) (void)compare({}, saved, options.against, options.tolerance_percent);
  const Json board = options.leaderboard.empty() ? Json() : read_leaderboard(options.leaderboard);
  for (const std::string* path : {&options.save, &options.leaderboard})
    if (!path->empty()) check_writable(*path);
  for (const cases::Case& c : chosen) (void)validated(c);

  std::vector<BenchRow> rows;
  {
    Progress progress("bench", chosen.size());
    for (const cases::Case& c : chosen) {
      const std::string incumbent =
          options.leaderboard.empty() ? "" : leader(board, c, resolve_threads(device.threads));
      const auto more = bench_case(c, options, device, incumbent);
      rows.insert(rows.end(), more.begin(), more.end());
      progress.tick(c.name);
    }
  }
  Json report = bench_json(rows);
  if (!options.save.empty()) write_json(options.save, report);
  if (!options.json) print_rows(rows);
  bool well = std::all_of(rows.begin(), rows.end(), [](const BenchRow& row) { return row.verified; });
  if (!options.against.empty()) well = gate(rows, options, saved, report) && well;
  if (!options.leaderboard.empty()) lead(rows, options, board, report);
  if (options.json) print_json(report);
  if (!options.save.empty() && !options.json) fmt::print("\nSaved to {}\n", options.save);
  return well ? kExitOk : kExitFailed;
}

}  // namespace

void add_bench(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("bench", "Verify, then time kernels against the machine's limits");
  options->cases.add_to(*verb);
  options->device.add_to(
      *verb, "Time this kernel instead of the plan's choice; may be repeated; 'all' for every one");
  verb->add_option("--min-time", options->min_time_s, "Seconds of samples per kernel and case")
      ->type_name("S")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "Seed of the inputs")->type_name("N")->capture_default_str();
  verb->add_option("--save", options->save, "Write the results to this JSON file")->type_name("FILE");
  verb->add_option("--against", options->against, "Compare with a saved file; exit 1 on a regression")
      ->type_name("FILE");
  verb->add_option("--tolerance", options->tolerance_percent,
                   "How much slower is accepted by --against, in percent")
      ->type_name("PERCENT")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--leaderboard", options->leaderboard,
                   "Enter the fastest kernel of each case if it leads by 3%")
      ->type_name("FILE");
  verb->add_flag("--json", options->json, "The result as JSON on stdout");
  verb->footer(
      R"(Every kernel is verified in the same run first; what fails is not timed. Several kernels are timed in
interleaved rounds. "of floor" is the least possible time on this CPU (its multiply-add rate, and its rate of
reading a buffer of the case's size, both measured in the same run) over the p50: 100% is the machine's limit.

Examples:
  tessera bench                                                the CPU cases, with the kernels the plan chooses
  tessera bench mission512 canon_3_causal --threads 1
  tessera bench --group cpu --kernel all --min-time 1
  tessera bench --save before.json && tessera bench --against before.json --tolerance 3
  tessera bench --kernel all --leaderboard bench/results/cpu/leaderboard.json

Exit code: 0; 1 failed verification or a regression; 2 bad command; 3 no such device here.)");
  verb->callback([options, exit_code] { *exit_code = bench(*options); });
}

}  // namespace tessera::cli
