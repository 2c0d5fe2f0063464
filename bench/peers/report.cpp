#include "report.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <numeric>

namespace tessera::peers {
namespace {

constexpr double kDisturbedPerSecond = 20;

// "12.34", or blanks where there is nothing to say.
std::string number(double value, int decimals) {
  return value > 0 ? fmt::format("{:.{}f}", value, decimals) : "";
}
std::string percent(double fraction) { return fraction > 0 ? fmt::format("{:.0f}%", 100 * fraction) : ""; }

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f}", ms, ms < 10 ? 3 : ms < 100 ? 2 : 1);
}

std::string goal_text(const Goal& goal) {
  const std::string reached =
      goal.reached < 0.01 ? fmt::format("{:.1e}", goal.reached) : fmt::format("{:.2f}", goal.reached);
  return fmt::format("{}: {} {}", goal.text, reached, goal.met ? "yes" : "NO");
}

// One row of the table; the heading is a row too. 72 columns, which leaves 28 for a goal.
std::string columns(const std::string& name, const std::string& p50, const std::string& p90,
                    const std::string& gflops, const std::string& gbs, const std::string& of_limit,
                    const std::string& over_f32, const std::string& error) {
  return fmt::format("  {:<20}{:>8}{:>8}{:>9}{:>6}{:>7}{:>6}{:>8}", name, p50, p90, gflops, gbs, of_limit,
                     over_f32, error);
}

void print_line(const Line& line) {
  if (!line.refused.empty()) {
    fmt::print("  {:<20} not timed: {}\n", line.name, line.refused);
    return;
  }
  fmt::print("{}", columns(line.name, milliseconds(line.timing.p50_s()), milliseconds(line.timing.p90_s()),
                           number(line.gflops, 1), number(line.gbs, 1), percent(line.of_limit),
                           number(line.is_limit ? 0 : line.time_over_tessera, 2),
                           line.is_limit ? "" : fmt::format("{:.0e}", line.check.relative_rms)));
  for (std::size_t i = 0; i < line.goals.size(); ++i)
    fmt::print("{}{}", i == 0 ? " " : "\n" + std::string(75, ' '), goal_text(line.goals[i]));
  fmt::print("\n");
}

const Line* find(const Block& block, const std::string& name) {
  for (const Line& line : block.lines)
    if (line.name == name && line.refused.empty()) return &line;
  return nullptr;
}

void print_recorded(const Block& block) {
  const Line* f16 = find(block, "Tessera f16");
  if (f16 == nullptr || block.threads > 2) return;
  for (const Recorded& r : block.recorded) {
    const double gflops = block.threads == 1 ? r.gflops_1_thread : r.gflops_2_threads;
    fmt::print("  recorded earlier, F16 K/V, Zen 3: {} {:.0f} GFLOP/s; Tessera f16 here is {:.2f}x that\n",
               r.name, gflops, f16->gflops / gflops);
  }
}

template <class Visit>
void each_line(const Run& run, Visit visit) {
  for (const auto* blocks : {&run.blocks, &run.sweep})
    for (const Block& block : *blocks)
      for (const Line& line : block.lines) visit(block, line);
}

}  // namespace

void print_host(const Run& run) {
  fmt::print("Tessera {} ({}) beside its peers, {}\n", tessera_version(), run.commit, run.date);
  fmt::print("{}, {} cores, {}; {}; seed {}\n", run.host.cpu, run.host.cores, run.host.instruction_set,
             run.host.compiler, run.seed);
  for (const Peer& peer : peers()) fmt::print("  {}: {}\n", peer.name, peer.version);
  for (const std::string& missing : left_out()) fmt::print("  left out: {}\n", missing);
  if (run.host.load_average > 0.3)
    fmt::print("  warning: the load average is {:.2f}; other programs disturb these figures\n",
               run.host.load_average);
  fmt::print("\n");
  std::fflush(stdout);
}

void print_rates(const Rates& r) {
  fmt::print("machine, {} thread{}: SGEMM {} GFLOP/s, FMA peak {:.1f} GFLOP/s\n", r.threads,
             r.threads == 1 ? "" : "s",
             r.sgemm_gflops > 0 ? fmt::format("{:.1f}", r.sgemm_gflops) : "(no library)", r.fma_gflops);
  fmt::print(
      "  DRAM read GB/s: 1 stream 4K pages {:.1f}, 1 stream huge pages {:.1f}, 4 streams huge pages {:.1f}\n",
      r.read_1_stream_ordinary_gbs, r.read_1_stream_huge_gbs, r.read_4_streams_huge_gbs);
  std::fflush(stdout);
}

void print_block(const Block& block) {
  fmt::print("\n{} {}, {} thread{}, {:.2f} GFLOP\n", block.title, label(block.shape), block.threads,
             block.threads == 1 ? "" : "s", cases::work(block.shape).flops * 1e-9);
  fmt::print("{} goal: reached\n",
             columns("", "p50 ms", "p90 ms", "GFLOP/s", "GB/s", block.limit_name, "×f32", "error"));
  for (const Line& line : block.lines) print_line(line);
  print_recorded(block);
  std::fflush(stdout);
}

void print_sweep(const std::vector<Block>& sweep, int threads) {
  fmt::print("\nfew-token sweep 1,32/8,Sq x 4096,128, {} thread{}: Tessera, % of SGEMM in the same rounds\n",
             threads, threads == 1 ? "" : "s");
  fmt::print("  {:>4}{:>10}{:>9}{:>8}{:>8}{:>8}{:>9}  goals missed\n", "Sq", "p50 ms", "GFLOP/s", "f32",
             "f16", "bf16", "rel.RMS");
  for (const Block& block : sweep) {
    if (block.threads != threads) continue;
    const Line& f32 = block.lines[0];
    if (!f32.refused.empty()) {
      fmt::print("  {:>4} not timed: {}\n", block.shape.queries, f32.refused);
      continue;
    }
    int missed = 0;
    for (const Line& line : block.lines)
      for (const Goal& goal : line.goals) missed += goal.met ? 0 : 1;
    fmt::print("  {:>4}{:>10}{:>9.1f}{:>8}{:>8}{:>8}{:>9.1e}  {}\n", block.shape.queries,
               milliseconds(f32.timing.p50_s()), f32.gflops, percent(f32.of_limit),
               percent(block.lines[1].of_limit), percent(block.lines[2].of_limit), f32.check.relative_rms,
               missed == 0 ? "none" : fmt::format("{}, listed at the end", missed));
  }
  std::fflush(stdout);
}

void print_summary(const Run& run) {
  int met = 0, missed = 0;
  each_line(run, [&](const Block&, const Line& line) {
    for (const Goal& goal : line.goals) (goal.met ? met : missed) += 1;
  });
  int refused = 0;
  double timed_s = 0, preemptions = 0;
  fmt::print("\ngoals: {} met, {} missed\n", met, missed);
  each_line(run, [&](const Block& block, const Line& line) {
    for (const Goal& goal : line.goals)
      if (!goal.met)
        fmt::print("  missed: {} {}, {} thread{}, {}: {}\n", block.title, label(block.shape), block.threads,
                   block.threads == 1 ? "" : "s", line.name, goal_text(goal));
    refused += line.refused.empty() ? 0 : 1;
    preemptions += static_cast<double>(line.timing.preemptions);
    timed_s += std::accumulate(line.timing.calls_s.begin(), line.timing.calls_s.end(), 0.0);
  });
  // A quiet machine shows a few a second (the kernel's own work); a busy one shows hundreds.
  if (timed_s > 0 && preemptions / timed_s > kDisturbedPerSecond)
    fmt::print(
        "  warning: other programs took a core away {:.0f} times a second of timed work: not a result\n",
        preemptions / timed_s);
  if (refused > 0) fmt::print("  not timed: {} contenders, for the reasons above\n", refused);
}

bool any_tessera_wrong(const Run& run) {
  bool wrong = false;
  each_line(run,
            [&](const Block&, const Line& line) { wrong = wrong || (line.ours && !line.refused.empty()); });
  return wrong;
}

int missed_goals(const Run& run) {
  int missed = 0;
  each_line(run, [&](const Block&, const Line& line) {
    for (const Goal& goal : line.goals) missed += goal.met ? 0 : 1;
  });
  return missed;
}

}  // namespace tessera::peers
