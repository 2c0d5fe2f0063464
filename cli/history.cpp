// Saved results, regression gate, leaderboard; see history.hpp.
#include "cli/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/common.hpp"

namespace tessera::cli {
namespace {

Json stats_json(const Stats& stats) {
  return {{"samples", stats.samples}, {"p50_us", stats.p50_us},   {"p90_us", stats.p90_us},
          {"p99_us", stats.p99_us},   {"mean_us", stats.mean_us}, {"std_us", stats.std_us},
          {"min_us", stats.min_us}};
}

Json state_json(const gpu::GpuState& state) {
  return {{"sm_mhz", state.sm_mhz},
          {"memory_mhz", state.memory_mhz},
          {"temperature_c", state.temperature_c},
          {"power_w", state.power_w}};
}

Json row_json(const BenchRow& row) {
  Json json = case_json(row.shape);
  json["kernel"] = row.kernel;
  json["chosen_by"] = row.by_plan ? "plan" : "name";
  json["device"] = row.device;
  json["threads"] = row.threads;
  if (row.rung > 0) json["rung"] = row.rung;
  if (row.tolerance > 0) json["tolerance"] = row.tolerance;
  json["verified"] = row.verified;
  json["verification"] = row.verification;
  if (!row.verified) return json;
  json["error_over_bound"] = row.worst_ratio;
  json.update(stats_json(row.stats));
  if (row.gpu) {
    json["calls_per_graph"] = row.gpu->calls_per_graph;
    json["single"] = stats_json(row.gpu->single);
    json["cold_l2"] = stats_json(row.gpu->cold);
    json["host"] = stats_json(row.gpu->host);
    json["bare_launch"] = stats_json(row.gpu->bare);
  }
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
  const std::string device = text_at(entry, "device");  // files from before GPUs have none
  return text_at(entry, "words") == cases::words(row.shape) &&
         (device.empty() ? "cpu" : device) == row.device && positive_number(entry, "threads") == row.threads;
}

std::string board_key(const cases::Case& c, int threads, const std::string& device) {
  if (device != "cpu") return fmt::format("{} on {}", cases::words(c), device);
  return fmt::format("{} threads={}", cases::words(c), threads);
}

// The entries of one case, best last, or null.
const Json* entries_of(const Json& board, const cases::Case& c, int threads, const std::string& device) {
  const auto cases_found = board.find("cases");
  if (cases_found == board.end() || !cases_found->is_object()) return nullptr;
  const auto found = cases_found->find(board_key(c, threads, device));
  if (found == cases_found->end() || !found->is_array() || found->empty()) return nullptr;
  return &*found;
}

LeaderboardEntry weigh(const Json& board, const BenchRow& best, const std::vector<BenchRow>& rows) {
  LeaderboardEntry entry{best.shape.name, best.kernel, best.stats.p50_us, true, "the first on this case"};
  const Json* entries = entries_of(board, best.shape, best.threads, best.device);
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

Json cpu_machine_json() {
  return {{"device", "cpu"}, {"cpu", this_machine().cpu}, {"cores", this_machine().cores}};
}

Json gpu_machine_json(const cuda::runtime::Gpu& gpu, const gpu::GpuState& before,
                      const gpu::GpuState& after) {
  return {{"device", "cuda"},
          {"gpu", gpu.name},
          {"arch", fmt::format("sm_{}", gpu.arch)},
          {"sms", gpu.sms},
          {"l2_bytes", gpu.l2_bytes},
          {"memory_bytes", gpu.memory_bytes},
          {"driver", after.driver},
          {"cuda_driver", after.cuda_driver},
          {"cuda_runtime", after.cuda_runtime},
          {"max_sm_mhz", after.max_sm_mhz},
          {"before", state_json(before)},
          {"after", state_json(after)},
          {"cpu", this_machine().cpu},
          {"cores", this_machine().cores}};
}

Json bench_json(const std::vector<BenchRow>& rows, const Json& machine) {
  Json json = {{"tessera", tessera_version()}, {"date", utc_now()},         {"commit", commit()},
               {"compiler", compiler()},       {"command", command_line()}, {"machine", machine},
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

std::string leader(const Json& board, const cases::Case& c, int threads, const std::string& device) {
  const Json* entries = entries_of(board, c, threads, device);
  return entries == nullptr ? "" : text_at(entries->back(), "kernel");
}

std::vector<LeaderboardEntry> enter(Json& board, const std::vector<BenchRow>& rows) {
  std::vector<LeaderboardEntry> outcome;
  std::vector<std::string> done;
  for (const BenchRow& first : rows) {
    const std::string key = board_key(first.shape, first.threads, first.device);
    if (!first.verified || std::find(done.begin(), done.end(), key) != done.end()) continue;
    done.push_back(key);
    const BenchRow* best = &first;
    for (const BenchRow& row : rows)
      if (row.verified && row.shape == first.shape && row.stats.p50_us < best->stats.p50_us) best = &row;
    outcome.push_back(weigh(board, *best, rows));
    if (!outcome.back().entered) continue;
    board["cases"][key].push_back(
        Json{{"kernel", best->kernel},
             {"p50_us", best->stats.p50_us},
             {"gflops_per_s", best->gflops()},
             {"gb_per_s", best->gbps()},
             {"case", best->shape.name},
             {"date", utc_now()},
             {"commit", commit()},
             {"machine", best->device == "cpu" ? this_machine().cpu : best->device}});
  }
  return outcome;
}

Json read_leaderboard(const std::string& path) {
  if (!std::filesystem::exists(path)) return Json{{"cases", Json::object()}};
  Json board = read_json(path);
  if (!board.is_object() || !board.contains("cases") || !board["cases"].is_object())
    usage_error(fmt::format("{}: has no \"cases\"; expected a leaderboard of `tessera bench`", path));
  for (const auto& [key, entries] : board["cases"].items()) {
    const auto good = [](const Json& e) {
      return e.is_object() && !text_at(e, "kernel").empty() && positive_number(e, "p50_us") > 0;
    };
    if (!entries.is_array() || !std::all_of(entries.begin(), entries.end(), good))
      usage_error(fmt::format("{}: '{}' is not a list of entries with a kernel and its p50_us", path, key));
  }
  return board;
}

}  // namespace tessera::cli
