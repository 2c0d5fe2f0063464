// `tessera verify`: the correctness gates over cases × inputs × kernels of a device.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "cases/gates.hpp"
#include "cli/check.hpp"
#include "cli/common.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"

namespace tessera::cli {
namespace {

// Larger cases are cut down to this, so that the oracle does not take minutes; --full lifts it.
constexpr double kDefaultFlops = 5e7;
constexpr double kQuickFlops = 4e6;

struct Options {
  CaseFlags cases;
  DeviceFlags device;
  std::vector<std::string> inputs;
  std::uint64_t seed = 1;
  bool quick = false;
  bool full = false;
  bool json = false;
};

struct Job {
  cases::Case shape;
  bool was_reduced = false;
  cases::Input input;
  std::size_t kernel = 0;  // index into the runnable kernels
  cases::Verdict verdict;
  std::string refused;  // not this kernel's problem, and why
};

struct Tally {
  int passed = 0, failed = 0, refused = 0;
  double worst_ratio = 0;
  const Job* worst = nullptr;
};

std::vector<cases::Input> chosen_inputs(const Options& options) {
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

std::vector<Job> plan_jobs(const Options& options, std::size_t kernels) {
  const double most = options.full ? 1e300 : options.quick ? kQuickFlops : kDefaultFlops;
  std::vector<Job> jobs;
  for (const cases::Case& c : options.cases.resolve(cases::all())) {
    const cases::Case shape = reduced(c, most);
    for (const cases::Input input : chosen_inputs(options))
      for (std::size_t k = 0; k < kernels; ++k) jobs.push_back({shape, !(shape == c), input, k, {}, ""});
  }
  return jobs;
}

void run_job(Job& job, const Candidate& candidate, const Options& options, tessera_device device) {
  device.kernel = candidate.name.c_str();
  if (const core::Status s = candidate.kernel->supports(validated(job.shape)); !s.ok()) {
    job.refused = s.message;
    return;
  }
  job.verdict = cases::judge(job.shape, job.input, options.seed, device);
  if (options.full && oracle_flops(job.shape) > kDefaultFlops) job.verdict.reproduce += " --full";
}

// The oracle is one thread, so several jobs run at once, one per core.
void run_jobs(std::vector<Job>& jobs, const std::vector<Candidate>& kernels, const Options& options,
              const tessera_device& device) {
  Progress progress("verify", jobs.size());
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto worker = [&] {
    try {
      for (std::size_t j = next++; j < jobs.size(); j = next++) {
        run_job(jobs[j], kernels[jobs[j].kernel], options, device);
        progress.tick(jobs[j].shape.name);
      }
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
      next = jobs.size();
    }
  };
  std::vector<std::thread> workers;
  for (int t = 1; t < this_machine().cores; ++t) workers.emplace_back(worker);
  worker();
  for (std::thread& each : workers) each.join();
  if (failure) std::rethrow_exception(failure);
}

std::vector<Tally> tallied(const std::vector<Job>& jobs, std::size_t kernels) {
  std::vector<Tally> tallies(kernels);
  for (const Job& job : jobs) {
    Tally& tally = tallies[job.kernel];
    if (!job.refused.empty()) {
      ++tally.refused;
      continue;
    }
    ++(job.verdict.passed ? tally.passed : tally.failed);
    if (tally.worst == nullptr || job.verdict.worst_ratio > tally.worst_ratio)
      tally.worst = &job, tally.worst_ratio = job.verdict.worst_ratio;
  }
  return tallies;
}

std::string worst_text(const Tally& tally) {
  if (tally.worst == nullptr) return "";
  return fmt::format("{} ({})", tally.worst->shape.name, cases::name(tally.worst->input));
}

Json report_json(const std::vector<Job>& jobs, const std::vector<Candidate>& kernels,
                 const std::vector<Candidate>& absent, const Options& options) {
  Json json = {{"device", options.device.device}, {"seed", options.seed},      {"commit", commit()},
               {"kernels", Json::array()},        {"failures", Json::array()}, {"not_here", Json::array()}};
  int passed = 0, failed = 0;
  const std::vector<Tally> tallies = tallied(jobs, kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const Tally& t = tallies[k];
    passed += t.passed, failed += t.failed;
    json["kernels"].push_back({{"name", kernels[k].name},
                               {"passed", t.passed},
                               {"failed", t.failed},
                               {"refused", t.refused},
                               {"worst_error_over_bound", t.worst_ratio},
                               {"worst_case", t.worst == nullptr ? "" : cases::words(t.worst->shape)},
                               {"worst_input", t.worst == nullptr ? "" : cases::name(t.worst->input)}});
  }
  for (const Job& job : jobs)
    if (job.refused.empty() && !job.verdict.passed)
      json["failures"].push_back({{"kernel", kernels[job.kernel].name},
                                  {"case", job.shape.name},
                                  {"input", cases::name(job.input)},
                                  {"why", job.verdict.why},
                                  {"reproduce", job.verdict.reproduce}});
  for (const Candidate& each : absent)
    json["not_here"].push_back({{"name", each.name}, {"why", each.missing}});
  json["passed"] = passed;
  json["failed"] = failed;
  return json;
}

void print_failures(const std::vector<Job>& jobs, const std::vector<Candidate>& kernels) {
  constexpr int kMostShown = 20;
  int shown = 0, more = 0;
  for (const Job& job : jobs) {
    if (!job.refused.empty() || job.verdict.passed) continue;
    if (++shown > kMostShown) {
      ++more;
      continue;
    }
    fmt::print("\n{} {}: {}, {} input\n  {}\n  {}\n", paint(Ink::red, "FAILED"), kernels[job.kernel].name,
               job.shape.name, cases::name(job.input), job.verdict.why,
               paint(Ink::cyan, job.verdict.reproduce));
  }
  if (more > 0) fmt::print("\n... and {} more; --json lists them all\n", more);
}

void print_report(const std::vector<Job>& jobs, const std::vector<Candidate>& kernels,
                  const std::vector<Candidate>& absent) {
  Table table({{"kernel"},
               {"passed", Table::Side::right},
               {"failed", Table::Side::right},
               {"refused", Table::Side::right},
               {"worst error / bound", Table::Side::right},
               {"at"}});
  const std::vector<Tally> tallies = tallied(jobs, kernels.size());
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
  if (std::any_of(jobs.begin(), jobs.end(), [](const Job& job) { return job.was_reduced; }))
    fmt::print(
        "{}\n",
        paint(Ink::dim, "  Large cases were cut down in batch, heads and length; --full runs them whole."));
  print_failures(jobs, kernels);
}

int verify(const Options& options) {
  const tessera_device device = options.device.resolve();
  std::vector<Candidate> kernels, absent;
  for (Candidate& each : candidates(device, options.device.kernels))
    (each.missing.empty() ? kernels : absent).push_back(std::move(each));
  if (kernels.empty()) throw Stop(kExitUnavailable, "no kernel of this device runs on this machine");

  std::vector<Job> jobs = plan_jobs(options, kernels.size());
  for (const Job& job : jobs) (void)validated(job.shape);  // a bad case stops here, before any work
  run_jobs(jobs, kernels, options, device);

  const bool failed = std::any_of(jobs.begin(), jobs.end(),
                                  [](const Job& job) { return job.refused.empty() && !job.verdict.passed; });
  const bool any = std::any_of(jobs.begin(), jobs.end(), [](const Job& job) { return job.refused.empty(); });
  if (options.json)
    print_json(report_json(jobs, kernels, absent, options));
  else
    print_report(jobs, kernels, absent);
  if (!any) throw Stop(kExitUnavailable, "nothing was verified: every kernel refused every case");
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

void add_verify(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("verify", "Prove kernels against the float64 oracle");
  options->cases.add_to(*verb);
  options->device.add_to(*verb, "Only this kernel; may be repeated");
  verb->add_option("--input", options->inputs,
                   "Only this kind of input (normal, large, dominant, ...); may be repeated")
      ->type_name("KIND");
  verb->add_option("--seed", options->seed, "Seed of the inputs")->type_name("N")->capture_default_str();
  verb->add_flag("--quick", options->quick, "Two kinds of input, smaller cases: seconds instead of minutes");
  verb->add_flag("--full", options->full, "Never cut a large case down (the oracle may take minutes)");
  verb->add_flag("--json", options->json, "The result as JSON on stdout");
  verb->footer(
      R"(A kernel may be off by at most twice the error of plain loops in its own precision plus one rounding step
of the output; NaN and inf must be where the oracle has them; nothing outside the output may be written;
two runs must agree bit for bit. "worst error / bound" over 1 is a failure.

Examples:
  tessera verify                                           everything
  tessera verify --quick
  tessera verify --group decode --input normal
  tessera verify "b2 h8/2 q256 k300 d64 f16 causal=bottom-right" --seed 7
  tessera verify canon_1 --full --kernel cpu_avx2

Exit code: 0 all passed, 1 something failed, 2 bad command, 3 no such device here.)");
  verb->callback([options, exit_code] { *exit_code = verify(*options); });
}

}  // namespace tessera::cli
