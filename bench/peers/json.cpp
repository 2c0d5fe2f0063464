// The run as JSON: everything that is needed to judge it later, and the command that made it.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "report.hpp"

namespace tessera::peers {
namespace {

using nlohmann::json;

// Absent rather than 0 where there is no figure.
void put(json* to, const char* key, double value) {
  if (value > 0) (*to)[key] = value;
}

json line_json(const Line& line) {
  json j = {{"name", line.name}};
  if (!line.refused.empty()) {
    j["not_timed"] = line.refused;
    return j;
  }
  if (!line.how.empty()) j["how"] = line.how;
  j["p50_ms"] = line.timing.p50_s() * 1e3;
  j["p90_ms"] = line.timing.p90_s() * 1e3;
  j["calls"] = line.timing.calls_s.size();
  j["preemptions"] = line.timing.preemptions;
  put(&j, "gflops", line.gflops);
  put(&j, "gbs", line.gbs);
  put(&j, "of_limit", line.of_limit);
  if (line.is_limit) return j;
  j["dtype"] = tessera_dtype_name(line.dtype);
  put(&j, "time_over_tessera_f32", line.time_over_tessera);
  j["relative_rms_error"] = line.check.relative_rms;
  j["error_beyond_rounding"] = line.check.beyond_rounding;
  j["checked_rows"] = line.check.checked_rows;
  for (const Goal& g : line.goals)
    j["goals"].push_back({{"goal", g.text}, {"reached", g.reached}, {"met", g.met}});
  return j;
}

json block_json(const Block& block) {
  const Case& s = block.shape;
  json j = {{"title", block.title},     {"shape", label(s)}, {"threads", block.threads},
            {"batch", s.batch},         {"heads", s.heads},  {"kv_heads", s.kv_heads},
            {"queries", s.queries},     {"keys", s.keys},    {"dim", s.dim},
            {"limit", block.limit_name}};
  for (const Line& line : block.lines) j["lines"].push_back(line_json(line));
  for (const Recorded& r : block.recorded)
    j["recorded_elsewhere"].push_back(
        {{"name", r.name}, {"gflops_1_thread", r.gflops_1_thread}, {"gflops_2_threads", r.gflops_2_threads}});
  return j;
}

json rates_json(const Rates& r) {
  json j = {{"threads", r.threads},
            {"fma_gflops", r.fma_gflops},
            {"read_1_stream_ordinary_gbs", r.read_1_stream_ordinary_gbs},
            {"read_1_stream_huge_gbs", r.read_1_stream_huge_gbs},
            {"read_4_streams_huge_gbs", r.read_4_streams_huge_gbs}};
  put(&j, "sgemm_gflops", r.sgemm_gflops);
  return j;
}

json run_json(const Run& run) {
  json j = {{"date", run.date},
            {"commit", run.commit},
            {"version", tessera_version()},
            {"command", run.command},
            {"seed", run.seed},
            {"quick", run.quick},
            {"cpu", run.host.cpu},
            {"cores", run.host.cores},
            {"instruction_set", run.host.instruction_set},
            {"compiler", run.host.compiler},
            {"load_average_before", run.host.load_average},
            {"goals_missed", missed_goals(run)}};
  for (const Peer& peer : peers()) j["peers"][peer.name] = peer.version;
  j["left_out"] = left_out();
  for (const Rates& r : run.rates) j["machine"].push_back(rates_json(r));
  for (const Block& b : run.blocks) j["rows"].push_back(block_json(b));
  for (const Block& b : run.sweep) j["sweep"].push_back(block_json(b));
  return j;
}

}  // namespace

std::string write_json(const Run& run, const std::string& path) {
  std::filesystem::path file(path);
  if (!path.empty() && path.back() == '/') file = file / run.host.slug / "peers.json";
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file);
  out << run_json(run).dump(2) << "\n";
  if (!out) throw std::runtime_error("cannot write " + file.string());
  return file.string();
}

}  // namespace tessera::peers
