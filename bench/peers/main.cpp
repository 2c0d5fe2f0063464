// tessera_peers: times Tessera's CPU backend side by side with oneDNN and OpenBLAS in one process.
// docs/bench-cpu.md explains the columns and the peers.
#include <fmt/core.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <random>
#include <thread>

#include "cli/common.hpp"
#include "cli/values.hpp"
#include "report.hpp"

namespace {

using namespace tessera::peers;

struct Options {
  std::vector<int> threads;
  std::vector<std::string> only;
  bool quick = false, huge_pages = false, strict = false;
  std::uint64_t seed = 0;
  int rounds = 0;
  std::string json;
};

void add_options(CLI::App& app, Options* o) {
  app.add_option("--threads", o->threads, "Thread counts, e.g. 1,2 (default: 1 and all cores)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--only", o->only, "Parts to run: machine, shapes, causal, sweep (default: all)")
      ->delimiter(',')
      ->check(CLI::IsMember({"machine", "shapes", "causal", "sweep"}));
  app.add_option("--rounds", o->rounds, "Interleaved rounds for each row (default: 11; 3 with --quick)")
      ->check(CLI::Range(1, 1000));
  tessera::cli::whole_number(
      app.add_option("--seed", o->seed, "Seed of the inputs (default: a new one each run, printed)"), 0,
      std::numeric_limits<std::uint64_t>::max());
  app.add_flag("--quick", o->quick, "Fewer rounds and a shorter sweep: a look, not a result");
  app.add_flag("--huge-pages", o->huge_pages, "Put the tensors on huge pages (default: ordinary pages)");
  app.add_flag("--strict", o->strict, "Exit with 1 if a goal is missed");
  app.add_option("--json", o->json, "Write results to FILE (or FOLDER/: to FOLDER/<cpu>/peers.json)");
  app.footer(
      "Examples:\n"
      "  tessera_peers                                  everything, 1 thread and all cores\n"
      "  tessera_peers --quick --only shapes            the peers' shapes in a minute or two\n"
      "  tessera_peers --threads 1 --only sweep         2 to 64 query tokens on one thread\n"
      "  tessera_peers --json bench/results/            keep the result\n"
      "Exit codes: 0 done, 1 Tessera was wrong (or, with --strict, a goal was missed), 2 bad usage.");
}

void resolve(Options* o) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (o->threads.empty()) o->threads = cores == 1 ? std::vector<int>{1} : std::vector<int>{1, cores};
  if (o->only.empty()) o->only = {"machine", "shapes", "causal", "sweep"};
  if (o->rounds == 0) o->rounds = o->quick ? 3 : 11;
  if (o->seed == 0) o->seed = std::random_device{}();
}

bool wanted(const Options& o, const char* part) {
  return std::find(o.only.begin(), o.only.end(), part) != o.only.end();
}

void run_all(const Options& o, const Settings& settings, Run* run) {
  Suite suite(settings);
  if (wanted(o, "machine")) {
    for (const int t : o.threads) {
      run->rates.push_back(measure_rates(t, settings.effort));
      print_rates(run->rates.back());
    }
  }
  const auto keep = [run](Block block) {
    print_block(block);
    run->blocks.push_back(std::move(block));
  };
  if (wanted(o, "shapes"))
    for (std::size_t i = 0; i < suite.shape_count(); ++i)
      for (const int t : o.threads) keep(suite.run_shape(i, t));
  if (wanted(o, "causal"))
    for (const int t : o.threads) keep(suite.run_causal(t));
  if (!wanted(o, "sweep")) return;
  for (const int t : o.threads) {
    std::vector<Block> sweep;
    for (const std::int64_t queries : suite.sweep_queries())
      sweep.push_back(suite.run_sweep_point(queries, t));
    add_cliff_goals(&sweep);
    print_sweep(sweep, t);
    std::move(sweep.begin(), sweep.end(), std::back_inserter(run->sweep));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{
      "Times Tessera beside oneDNN and OpenBLAS on this CPU. Everyone is checked against float64 first."};
  add_options(app, &o);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wish) {
    return app.exit(wish);  // prints help
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "tessera_peers: {}\nTry `tessera_peers --help`.\n", e.what());
    return 2;
  }
  resolve(&o);
  omp_set_dynamic(0);

  Settings settings;
  settings.effort.rounds = o.rounds;
  settings.seed = o.seed;
  settings.quick = o.quick;
  settings.pages = o.huge_pages ? Pages::huge : Pages::ordinary;

  Run run;
  run.host = describe_host();
  run.date = tessera::cli::utc_now();
  run.commit = tessera::cli::commit();
  run.seed = o.seed;
  run.quick = o.quick;
  for (int i = 0; i < argc; ++i) run.command += (i == 0 ? "tessera_peers" : std::string(" ") + argv[i]);
  try {
    print_host(run);
    run_all(o, settings, &run);
    print_summary(run);
    if (!o.json.empty()) fmt::print("wrote {}\n", write_json(run, o.json));
  } catch (const std::exception& e) {
    fmt::print(stderr, "tessera_peers: {}\n", e.what());
    return 1;
  }
  return any_tessera_wrong(run) || (o.strict && missed_goals(run) > 0) ? 1 : 0;
}
