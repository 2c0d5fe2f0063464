// Saved results, regression gate, leaderboard; see history.hpp.
#include "cli/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/common.hpp"

namespace tessera::cli {
namespace {

Json row_json(const BenchRow& row) {
  Json json = case_json(row.shape);
  json["kernel"] = row.kernel;
  json["chosen_by"] = row.by_plan ? "plan" : "name";
  json["threads"] = row.threads;
  json["verified"] = row.verified;
  json["verification"] = row.verification;
  if (!row.verified) return json;
  json["error_over_bound"] = row.worst_ratio;
  json["samples"] = row.stats.samples;
  json["p50_us"] = row.stats.p50_us;
  json["p90_us"] = row.stats.p90_us;
  json["p99_us"] = row.stats.p99_us;
  json["mean_us"] = row.stats.mean_us;
  json["std_us"] = row.stats.std_us;
  json["min_us"] = row.stats.min_us;
  json["gflops_per_s"] = row.gflops();
  json["gb_per_s"] = row.gbps();
  json["floor_us"] = row.floor_us;
  json["floor_percent"] = row.floor_percent();
  json["wall"] = row.wall;
  return json;
}

double positive_number(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_number()) return 0;
  const double value = found->get<double>();
  return value > 0 ? value : 0;
}

std::string text_at(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : "";
}

bool same_case(const Json& entry, const BenchRow& row) {
  return text_at(entry, "words") == cases::words(row.shape) &&
         positive_number(entry, "threads") == row.threads;
}

std::string board_key(const cases::Case& c, int threads) {
  return fmt::format("{} threads={}", cases::words(c), threads);
}

// The entries of one case, best last, or null.
const Json* entries_of(const Json& board, const cases::Case& c, int threads) {
  const auto cases_found = board.find("cases");
  if (cases_found == board.end() || !cases_found->is_object()) return nullptr;
  const auto found = cases_found->find(board_key(c, threads));
  if (found == cases_found->end() || !found->is_array() || found->empty()) return nullptr;
  return &*found;
}

LeaderboardEntry weigh(const Json& board, const BenchRow& best, const std::vector<BenchRow>& rows) {
  LeaderboardEntry entry{best.shape.name, best.kernel, best.stats.p50_us, true, "the first on this case"};
  const Json* entries = entries_of(board, best.shape, best.threads);
  if (entries == nullptr) return entry;
  const std::string holder = text_at(entries->back(), "kernel");
  double to_beat_us = positive_number(entries->back(), "p50_us");
  std::string source = fmt::format("recorded {}", text_at(entries->back(), "date").substr(0, 10));
  for (const BenchRow& row : rows) {
    const bool is_holder = row.kernel == holder && row.verified && row.shape == best.shape;
    if (is_holder && holder != best.kernel) to_beat_us = row.stats.p50_us, source = "timed in this run";
  }
  const double gain = (1 - best.stats.p50_us / to_beat_us) * 100;
  entry.entered = to_beat_us > 0 && gain >= kEntryGainPercent;
  if (holder == best.kernel && !entry.entered && gain < 0) {
    entry.why = fmt::format("already leads with {:.1f} µs ({})", to_beat_us, source);
  } else {
    entry.why = fmt::format("{:.1f}% {} than {} ({:.1f} µs, {}); {:g}% is asked for", std::abs(gain),
                            gain >= 0 ? "faster" : "slower", holder, to_beat_us, source, kEntryGainPercent);
  }
  return entry;
}

}  // namespace

Json bench_json(const std::vector<BenchRow>& rows) {
  const Machine& machine = this_machine();
  Json json = {{"tessera", tessera_version()},
               {"date", utc_now()},
               {"commit", commit()},
               {"compiler", compiler()},
               {"command", command_line()},
               {"machine", {{"device", "cpu"}, {"cpu", machine.cpu}, {"cores", machine.cores}}},
               {"results", Json::array()}};
  for (const BenchRow& row : rows) json["results"].push_back(row_json(row));
  return json;
}

std::vector<Comparison> compare(const std::vector<BenchRow>& rows, const Json& saved, const std::string& path,
                                double tolerance_percent) {
  const auto results = saved.find("results");
  if (!saved.is_object() || results == saved.end() || !results->is_array())
    usage_error(fmt::format("{}: has no \"results\"; expected a file from `tessera bench --save`", path));
  std::vector<Comparison> comparisons;
  for (const BenchRow& row : rows) {
    if (!row.verified) continue;
    const Json* match = nullptr;
    for (const Json& entry : *results) {
      if (!entry.is_object() || !same_case(entry, row) || positive_number(entry, "p50_us") == 0) continue;
      if (text_at(entry, "kernel") == row.kernel) {
        match = &entry;
        break;
      }
      if (match == nullptr || positive_number(entry, "p50_us") < positive_number(*match, "p50_us"))
        match = &entry;
    }
    Comparison c{row.shape.name, row.kernel, "", row.stats.p50_us, 0, match != nullptr, false};
    if (match != nullptr) {
      c.before_us = positive_number(*match, "p50_us");
      c.baseline_kernel = text_at(*match, "kernel");
      c.regressed = c.change_percent() > tolerance_percent;
    }
    comparisons.push_back(c);
  }
  return comparisons;
}

std::string leader(const Json& board, const cases::Case& c, int threads) {
  const Json* entries = entries_of(board, c, threads);
  return entries == nullptr ? "" : text_at(entries->back(), "kernel");
}

std::vector<LeaderboardEntry> enter(Json& board, const std::vector<BenchRow>& rows) {
  std::vector<LeaderboardEntry> outcome;
  std::vector<std::string> done;
  for (const BenchRow& first : rows) {
    const std::string key = board_key(first.shape, first.threads);
    if (!first.verified || std::find(done.begin(), done.end(), key) != done.end()) continue;
    done.push_back(key);
    const BenchRow* best = &first;
    for (const BenchRow& row : rows)
      if (row.verified && row.shape == first.shape && row.stats.p50_us < best->stats.p50_us) best = &row;
    outcome.push_back(weigh(board, *best, rows));
    if (!outcome.back().entered) continue;
    board["cases"][key].push_back(Json{{"kernel", best->kernel},
                                       {"p50_us", best->stats.p50_us},
                                       {"gflops_per_s", best->gflops()},
                                       {"gb_per_s", best->gbps()},
                                       {"case", best->shape.name},
                                       {"date", utc_now()},
                                       {"commit", commit()},
                                       {"machine", this_machine().cpu}});
  }
  return outcome;
}

Json read_leaderboard(const std::string& path) {
  if (!std::filesystem::exists(path)) return Json{{"cases", Json::object()}};
  Json board = read_json(path);
  if (!board.is_object() || !board.contains("cases") || !board["cases"].is_object())
    usage_error(fmt::format("{}: has no \"cases\"; expected a leaderboard of `tessera bench`", path));
  return board;
}

}  // namespace tessera::cli
