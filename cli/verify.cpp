// `tessera verify`: the correctness gates over cases × inputs × kernels of a device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cases/gates.hpp"
#include "cli/check.hpp"
#include "cli/common.hpp"
#include "cli/json.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cli {
namespace {

// Larger cases are cut down to this, so that the oracle does not take minutes; --full lifts it.
constexpr double kDefaultFlops = 5e7;
constexpr double kQuickFlops = 4e6;

struct VerifyOptions {
  CaseFlags cases;
  DeviceFlags device;
  std::vector<std::string> inputs;
  std::uint64_t seed = 1;
  bool quick = false;
  bool full = false;
  bool json = false;
};

// One case with one kind of input: the truth is computed once, then every kernel is judged by it.
struct Job {
  cases::Case shape;
  bool was_reduced = false;
  cases::Input input;
};

struct Result {
  const Job* job = nullptr;
  std::size_t kernel = 0;  // index into the runnable kernels
  cases::Verdict verdict;
  bool refused = false;  // not a problem for this kernel, which says so
};

// Half accumulation overflows where scores reach 1e4, so a kernel with a tolerance of its own is not held to
// that kind of input: it is the price it is known for.
bool beyond(const core::Kernel& kernel, cases::Input input) {
  return kernel.tolerance > 0 && input == cases::Input::large;
}

struct Tally {
  int passed = 0, failed = 0, refused = 0;
  double worst_ratio = 0;
  const Result* worst = nullptr;
};

std::vector<cases::Input> chosen_inputs(const VerifyOptions& options) {
  std::vector<cases::Input> inputs;
  for (const std::string& text : options.inputs) {
    const auto input = cases::parse_input(text);
    if (!input) {
      std::string known;
      for (const cases::Input each : cases::all_inputs()) known += fmt::format(" {}", cases::name(each));
      usage_error(fmt::format("--input '{}' is unknown; accepted:{}", text, known));
    }
    inputs.push_back(*input);
  }
  if (!inputs.empty()) return inputs;
  if (options.quick) return {cases::Input::normal, cases::Input::nonfinite};
  return cases::all_inputs();
}

std::vector<Job> plan_jobs(const VerifyOptions& options) {
  const double most = options.full ? 1e300 : options.quick ? kQuickFlops : kDefaultFlops;
  std::vector<Job> jobs;
  for (const cases::Case& c : options.cases.resolve(cases::named())) {
    const cases::Case shape = reduced(c, most);
    (void)validated(shape);  // a bad case stops here, before any work
    for (const cases::Input input : chosen_inputs(options))
      if (!options.inputs.empty() || cases::differs_from_normal(shape, input))
        jobs.push_back({shape, !(shape == c), input});
  }
  return jobs;
}

std::vector<Result> run_jobs(const std::vector<Job>& jobs, const std::vector<Candidate>& kernels,
                             const VerifyOptions& options, tessera_device device) {
  Progress progress("verify", jobs.size());
  std::vector<Result> results;
  for (const Job& job : jobs) {
    cases::Instance instance(job.shape, job.input, options.seed);
    const cases::Expected expected = cases::expect(instance);
    const core::Problem problem = validated(instance);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      Result result{&job,
                    k,
                    {},
                    beyond(*kernels[k].kernel, job.input) || !core::takes(*kernels[k].kernel, problem).ok()};
      device.kernel = kernels[k].name.c_str();
      if (!result.refused) result.verdict = cases::judge(instance, expected, device);
      if (options.full && oracle_flops(job.shape) > kDefaultFlops) result.verdict.reproduce += " --full";
      results.push_back(std::move(result));
    }
    progress.tick(job.shape.name);
  }
  return results;
}

bool failed(const Result& result) { return !result.refused && !result.verdict.passed; }

std::vector<Tally> tallied(const std::vector<Result>& results, std::size_t kernels) {
  std::vector<Tally> tallies(kernels);
  for (const Result& result : results) {
    Tally& tally = tallies[result.kernel];
    if (result.refused) {
      ++tally.refused;
      continue;
    }
    ++(result.verdict.passed ? tally.passed : tally.failed);
    if (tally.worst == nullptr || result.verdict.worst_ratio > tally.worst_ratio)
      tally.worst = &result, tally.worst_ratio = result.verdict.worst_ratio;
  }
  return tallies;
}

std::string worst_text(const Tally& tally) {
  if (tally.worst == nullptr) return "";
  return fmt::format("{} ({})", tally.worst->job->shape.name, cases::name(tally.worst->job->input));
}

std::string gpu_name(const VerifyOptions& options) {
  if (options.device.device != "cuda") return "";
  const cuda::runtime::Gpu* gpu = cuda::runtime::find_gpu(options.device.gpu, nullptr);
  return gpu == nullptr ? "" : gpu->name;
}

Json report_json(const std::vector<Result>& results, const std::vector<Candidate>& kernels,
                 const std::vector<Candidate>& absent, const VerifyOptions& options) {
  Json json = {{"device", options.device.device},
               {"gpu", gpu_name(options)},
               {"seed", options.seed},
               {"commit", commit()},
               {"kernels", Json::array()},
               {"failures", Json::array()},
               {"not_here", Json::array()}};
  int passed = 0, failures = 0;
  const std::vector<Tally> tallies = tallied(results, kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const Tally& t = tallies[k];
    passed += t.passed, failures += t.failed;
    json["kernels"].push_back({{"name", kernels[k].name},
                               {"passed", t.passed},
                               {"failed", t.failed},
                               {"refused", t.refused},
                               {"worst_error_over_bound", t.worst_ratio},
                               {"worst_case", t.worst == nullptr ? "" : cases::words(t.worst->job->shape)},
                               {"worst_input", t.worst == nullptr ? "" : cases::name(t.worst->job->input)}});
  }
  for (const Result& r : results)
    if (failed(r))
      json["failures"].push_back({{"kernel", kernels[r.kernel].name},
                                  {"case", r.job->shape.name},
                                  {"input", cases::name(r.job->input)},
                                  {"why", r.verdict.why},
                                  {"reproduce", r.verdict.reproduce}});
  for (const Candidate& each : absent)
    json["not_here"].push_back({{"name", each.name}, {"why", each.missing}});
  json["passed"] = passed;
  json["failed"] = failures;
  return json;
}

void print_failures(const std::vector<Result>& results, const std::vector<Candidate>& kernels) {
  constexpr int kMostShown = 20;
  int shown = 0, more = 0;
  for (const Result& r : results) {
    if (!failed(r)) continue;
    if (shown == kMostShown) {
      ++more;
      continue;
    }
    ++shown;
    fmt::print("\n{} {}: {}, {} input\n  {}\n  {}\n", paint(Ink::red, "FAILED"), kernels[r.kernel].name,
               r.job->shape.name, cases::name(r.job->input), r.verdict.why,
               paint(Ink::cyan, r.verdict.reproduce));
  }
  if (more > 0) fmt::print("\n... and {} more; --json lists them all\n", more);
}

void print_report(const std::vector<Result>& results, const std::vector<Candidate>& kernels,
                  const std::vector<Candidate>& absent) {
  Table table({{"kernel"},
               {"passed", Table::Side::right},
               {"failed", Table::Side::right},
               {"refused", Table::Side::right},
               {"worst error / bound", Table::Side::right},
               {"at"}});
  const std::vector<Tally> tallies = tallied(results, kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const Tally& t = tallies[k];
    table.add({kernels[k].name, paint(t.passed > 0 ? Ink::green : Ink::plain, std::to_string(t.passed)),
               paint(t.failed > 0 ? Ink::red : Ink::dim, std::to_string(t.failed)),
               paint(Ink::dim, std::to_string(t.refused)),
               t.worst == nullptr ? "" : fmt::format("{:.3f}", t.worst_ratio), worst_text(t)});
  }
  fmt::print("{}", table.text());
  for (const Candidate& each : absent)
    fmt::print("  {}\n", paint(Ink::dim, fmt::format("{} not here: {}", each.name, each.missing)));
  if (std::any_of(results.begin(), results.end(), [](const Result& r) { return r.job->was_reduced; }))
    fmt::print(
        "{}\n",
        paint(Ink::dim, "  Large cases were cut down in batch, heads and length; --full runs them whole."));
  for (const Candidate& each : kernels)
    if (each.kernel->tolerance > 0)
      fmt::print(
          "  {}\n",
          paint(Ink::dim, fmt::format("{} is judged by atol = rtol = {:g} and not on large scores, which "
                                      "overflow its half-precision sums.",
                                      each.name, each.kernel->tolerance)));
  print_failures(results, kernels);
  const auto bad = std::count_if(results.begin(), results.end(), failed);
  if (bad > 0)
    fmt::print("\n{}\n", paint(Ink::red, fmt::format("{} of {} checks failed", bad, results.size())));
}

int verify(const VerifyOptions& options) {
  const tessera_device device = options.device.resolve();
  std::vector<Candidate> kernels, absent;
  for (Candidate& each : candidates(device, options.device.kernels))
    (each.missing.empty() ? kernels : absent).push_back(std::move(each));
  if (kernels.empty()) throw Stop(kExitUnavailable, "no kernel of this device runs on this machine");

  const std::vector<Job> jobs = plan_jobs(options);
  const std::vector<Result> results = run_jobs(jobs, kernels, options, device);
  if (options.json)
    print_json(report_json(results, kernels, absent, options));
  else
    print_report(results, kernels, absent);
  if (std::all_of(results.begin(), results.end(), [](const Result& r) { return r.refused; }))
    throw Stop(kExitUnavailable, "nothing was verified: every kernel refused every case");
  return std::any_of(results.begin(), results.end(), failed) ? kExitFailed : kExitOk;
}

}  // namespace

void add_verify(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verb = app.add_subcommand("verify", "Prove kernels against the float64 oracle");
  options->cases.add_to(*verb);
  options->device.add_to(*verb, "Only this kernel; may be repeated");
  verb->add_option("--input", options->inputs,
                   "Only this kind of input (normal, large, dominant, ...); may be repeated")
      ->type_name("KIND");
  add_seed(*verb, &options->seed);
  verb->add_flag("--quick", options->quick, "Two kinds of input, smaller cases: seconds instead of minutes");
  verb->add_flag("--full", options->full,
                 "Never cut a large case down; where it is very large, rows drawn by the seed are judged");
  verb->add_flag("--json", options->json, "The result as JSON on stdout");
  verb->footer(
      R"(A kernel may be off by at most twice the error of plain loops in its own precision plus one rounding step
of the output; NaN and inf must be where the oracle has them; nothing outside the output may be written;
runs with one thread and several must agree bit for bit, and on a GPU several at once; there NaN in the other
batch entries must not matter either. "worst error / bound" over 1 is a failure.

Examples:
  tessera verify                                           everything
  tessera verify --quick
  tessera verify --group decode --input normal
  tessera verify "b2 h8/2 q256 k300 d64 f16 causal=bottom-right" --seed 7
  tessera verify canon_1 --full --kernel cpu_avx2
  tessera verify --device cuda                             everything, on the first GPU

Exit code 1: something failed. `tessera --help` has all codes.)");
  verb->callback([options, exit_code] { *exit_code = verify(*options); });
}

}  // namespace tessera::cli
