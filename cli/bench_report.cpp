// See bench_report.hpp.
#include "cli/bench_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/common.hpp"
#include "cli/term.hpp"

namespace tessera::cli {
namespace {

// A run whose p90 is further than this from its p50 was disturbed.
constexpr double kSteadyRatio = 1.2;

std::string us(double value) { return value < 100 ? fmt::format("{:.2f}", value) : grouped(value); }

// Times of a GPU are told in TFLOP/s, of a CPU in GFLOP/s.
Table time_table(const std::vector<BenchRow>& rows, bool gpu) {
  const auto right = Table::Side::right;
  const bool spare = true;
  std::vector<Table::Column> columns = {{"case"},
                                        {"kernel"},
                                        {"p50 µs", right},
                                        {"p90", right, spare},
                                        {"p99", right, spare},
                                        {"mean", right, spare},
                                        {"std", right, spare}};
  if (gpu)
    columns.insert(columns.end(),
                   {{"single", right, spare}, {"cold L2", right, spare}, {"host", right, spare}});
  columns.insert(columns.end(), {{gpu ? "TFLOP/s" : "GFLOP/s", right},
                                 {"GB/s", right, spare},
                                 {"of floor", right},
                                 {"wall", Table::Side::left, spare}});
  Table table(columns);
  for (const BenchRow& row : rows) {
    std::vector<std::string> cells = {row.shape.name, row.kernel};
    if (!row.verified) {
      cells.push_back(paint(Ink::red, "not timed"));
      cells.resize(columns.size() - 1, "-");
      cells.push_back(paint(Ink::red, "failed verification"));
      table.add(std::move(cells));
      continue;
    }
    const Stats& s = row.stats;
    cells.push_back(paint(Ink::bold, us(s.p50_us)));
    for (const double value : {s.p90_us, s.p99_us, s.mean_us, s.std_us}) cells.push_back(us(value));
    if (gpu) {
      const double over_bare = row.gpu->host.p50_us - row.gpu->bare.p50_us;
      cells.insert(cells.end(), {us(row.gpu->single.p50_us), us(row.gpu->cold.p50_us),
                                 fmt::format("{} + {}", us(row.gpu->bare.p50_us), us(over_bare))});
    }
    cells.insert(
        cells.end(),
        {fmt::format("{:.1f}", row.gflops() / (gpu ? 1e3 : 1)), fmt::format("{:.1f}", row.gbps()),
         row.floor_us > 0 ? fmt::format("{:.0f}%", row.floor_percent()) : "-", paint(Ink::dim, row.wall)});
    table.add(std::move(cells));
  }
  return table;
}

std::string machine_line(const std::vector<BenchRow>& rows, const Json& machine) {
  const auto text = [&](const char* key) { return machine.value(key, std::string()); };
  if (text("device") != "cuda") {
    const int threads = rows.front().threads;
    return fmt::format("{}, {} thread{}, {}, {}", paint(Ink::bold, text("cpu")), threads,
                       threads == 1 ? "" : "s", compiler(), commit());
  }
  const auto mhz = [&](const char* when) {
    return machine.value(Json::json_pointer(fmt::format("/{}/sm_mhz", when)), 0);
  };
  std::string clocks = fmt::format("at most {} MHz", machine.value("max_sm_mhz", 0));
  if (mhz("after") > 0) clocks += fmt::format(", {} before and {} after", mhz("before"), mhz("after"));
  return fmt::format("{} ({}), driver {}, CUDA {}, {}; {}", paint(Ink::bold, text("gpu")), text("arch"),
                     text("driver").empty() ? "for CUDA " + text("cuda_driver") : text("driver"),
                     text("cuda_runtime"), commit(), clocks);
}

// What a step is measured against: the fastest of the rung below, of those held to the derived bound. For
// kernels of no rung that is the top of the ladder.
const BenchRow* rung_below(const std::vector<BenchRow>& rows, const BenchRow& row) {
  const auto height = [](const BenchRow& r) { return r.rung == 0 ? 1000 : r.rung; };
  const BenchRow* best = nullptr;
  for (const BenchRow& other : rows) {
    if (!other.verified || other.tolerance > 0 || !(other.shape == row.shape)) continue;
    if (height(other) >= height(row)) continue;
    const bool higher = best == nullptr || height(other) > height(*best);
    if (higher || (height(other) == height(*best) && other.stats.p50_us < best->stats.p50_us)) best = &other;
  }
  return best;
}

void print_verification(const std::vector<BenchRow>& rows) {
  fmt::print("Verified before timing (error / bound):\n");
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

}  // namespace

void print_rows(const std::vector<BenchRow>& rows, const Json& machine) {
  const bool gpu = machine.value("device", std::string()) == "cuda";
  fmt::print("{}\n\n{}\n", machine_line(rows, machine), time_table(rows, gpu).text());
  if (gpu)
    fmt::print("{}\n", paint(Ink::dim,
                             "p50 to std: a call inside a CUDA graph. single: from call to result. "
                             "cold L2: a call after the cache was overwritten. host: a launch of nothing + "
                             "what the call's host time is over it."));
  print_verification(rows);
}

void print_ladder(const std::vector<BenchRow>& rows, const Json& machine, bool quiet, Json& report) {
  const auto right = Table::Side::right;
  const std::vector<Table::Column> columns = {{"rung", right},
                                              {"kernel"},
                                              {"p50 µs", right},
                                              {"p90", right, true},
                                              {"TFLOP/s", right},
                                              {"of floor", right},
                                              {"step gain", right},
                                              {"since rung 1", right, true},
                                              {"error / bound", right, true}};
  if (!quiet) fmt::print("{}\n", machine_line(rows, machine));
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end].shape == rows[begin].shape) ++end;
    Table table(columns);
    const BenchRow* first = nullptr;
    for (std::size_t n = begin; n < end; ++n) {
      const BenchRow& row = rows[n];
      const std::string rung = row.rung > 0 ? std::to_string(row.rung) : "";
      if (!row.verified) {
        table.add({rung, row.kernel, paint(Ink::red, "wrong"), "-", "-", "-", "-", "-", "-"});
        continue;
      }
      if (first == nullptr) first = &row;
      const BenchRow* below = rung_below(rows, row);
      const double step = below == nullptr ? 1 : below->stats.p50_us / row.stats.p50_us;
      const double total = first->stats.p50_us / row.stats.p50_us;
      Json& json = report["results"][n];
      json["step_gain"] = step;
      json["step_over"] = below == nullptr ? "" : below->kernel;
      json["gain_since_first"] = total;
      table.add({rung, row.kernel, paint(Ink::bold, us(row.stats.p50_us)), us(row.stats.p90_us),
                 fmt::format("{:.1f}", row.gflops() / 1e3),
                 row.floor_us > 0 ? fmt::format("{:.0f}%", row.floor_percent()) : "-",
                 below == nullptr ? "" : fmt::format("{:.2f}×", step), fmt::format("{:.1f}×", total),
                 fmt::format("{:.3f}", row.worst_ratio)});
    }
    if (!quiet)
      fmt::print("\n{}  {}\n{}", paint(Ink::bold, rows[begin].shape.name),
                 paint(Ink::dim, cases::words(rows[begin].shape)), table.text());
  }
  if (quiet) return;
  fmt::print("{}\n", paint(Ink::dim, "step gain: over the fastest kernel of the rung below."));
  print_verification(rows);
}

bool gate(const std::vector<BenchRow>& rows, const SavedResults& saved, bool quiet, Json& report) {
  const auto right = Table::Side::right;
  Table table({{"case"}, {"kernel"}, {"before µs", right}, {"now µs", right}, {"change", right}, {""}});
  bool regressed = false;
  for (const Comparison& c : compare(rows, saved.content, saved.path, saved.tolerance_percent)) {
    Json json = {{"case", c.case_name}, {"kernel", c.kernel}, {"known", c.known}, {"regressed", c.regressed}};
    regressed = regressed || c.regressed;
    if (!c.known) {
      table.add({c.case_name, c.kernel, "-", fmt::format("{:.1f}", c.now_us), "-",
                 paint(Ink::dim, "not in the file")});
    } else {
      const double change = c.change_percent();
      json.update({{"before_us", c.before_us}, {"now_us", c.now_us}, {"change_percent", change}});
      const bool faster = change < -saved.tolerance_percent;
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
  if (quiet) return !regressed;
  const char* key = report["machine"]["device"] == "cuda" ? "/machine/gpu" : "/machine/cpu";
  const Json::json_pointer at(key);
  const bool told = saved.content.contains(at) && saved.content[at].is_string();
  const std::string machine = told ? saved.content[at].get<std::string>() : "";
  fmt::print("\nAgainst {} (up to {:g}% slower is accepted):\n{}", saved.path, saved.tolerance_percent,
             table.text());
  if (machine != report.value(at, std::string()))
    fmt::print(
        "{}\n",
        paint(Ink::yellow,
              fmt::format("  That file is from another machine ({}): only times of one machine compare.",
                          machine.empty() ? "unknown" : machine)));
  fmt::print("  {}\n", regressed ? paint(Ink::red, "REGRESSION") : paint(Ink::green, "no regression"));
  return !regressed;
}

void lead(const std::vector<BenchRow>& rows, const std::string& path, Json board, bool quiet, Json& report) {
  const std::vector<LeaderboardEntry> outcome = enter(board, rows);
  if (!quiet) fmt::print("\nLeaderboard {}:\n", path);
  bool changed = false;
  for (const LeaderboardEntry& each : outcome) {
    changed = changed || each.entered;
    report["leaderboard"].push_back({{"case", each.case_name},
                                     {"kernel", each.kernel},
                                     {"p50_us", each.p50_us},
                                     {"entered", each.entered},
                                     {"why", each.why}});
    if (!quiet)
      fmt::print("  {} {} with {} ({}): {}\n", each.case_name,
                 each.entered ? paint(Ink::green, "entered") : paint(Ink::dim, "not entered"), each.kernel,
                 microseconds(each.p50_us), each.why);
  }
  if (changed) write_json(path, board);
}

}  // namespace tessera::cli
