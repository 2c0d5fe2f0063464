// Counters and limits; see profile_gates.hpp.
#include "cli/profile_gates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cli/term.hpp"

namespace tessera::cli {
namespace {

constexpr const char* kTime = "gpu__time_duration.sum";
// Requests, and the turns ("wavefronts") that serving them took. 1 is ideal for 4 bytes a lane, 4 for 16
// bytes.
constexpr const char* kSharedLoads = "smsp__sass_inst_executed_op_shared_ld.sum";
constexpr const char* kSharedStores = "smsp__sass_inst_executed_op_shared_st.sum";
constexpr const char* kLdmatrix = "smsp__sass_inst_executed_op_ldsm.sum";
constexpr const char* kWavesLoads = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
constexpr const char* kWavesStores = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum";
constexpr const char* kConflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum";
// By the addresses that each instruction asked for, against the fewest that would do.
constexpr const char* kSharedByAddress = "memory_l1_wavefronts_shared";
constexpr const char* kSharedIdeal = "memory_l1_wavefronts_shared_ideal";
constexpr const char* kSectorsByAddress = "memory_l2_theoretical_sectors_global";
constexpr const char* kSectorsIdeal = "memory_l2_theoretical_sectors_global_ideal";
constexpr const char* kSectorsPerLoad =
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio";
constexpr const char* kSectorsPerStore =
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio";
constexpr const char* kLocalLoads = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum";
constexpr const char* kLocalStores = "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum";
constexpr const char* kTensor = "sm__inst_executed_pipe_tensor_op_hmma.sum";
constexpr const char* kTensorBusy = "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active";
constexpr const char* kHalfAdds = "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum";
constexpr const char* kFloatAdds = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum";
constexpr const char* kDram = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr const char* kL2Hits = "lts__t_sector_hit_rate.pct";
constexpr const char* kSmBusy = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr const char* kOccupancy = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr const char* kRegisters = "launch__registers_per_thread";
constexpr const char* kSharedStatic = "launch__shared_mem_per_block_static";
constexpr const char* kSharedDynamic = "launch__shared_mem_per_block_dynamic";

constexpr int kProductionRung = 100;  // above every rung

using Fields = std::vector<std::string>;

// One line of CSV: fields in quotes, a quote inside doubled.
Fields split_csv(std::string_view line) {
  Fields fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        fields.back() += '"', ++i;
      else
        quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

// "1,048,576", "12.5" and "12 (5; 7)", where the parts of the sum follow; nothing for "n/a" and "(nan)".
std::optional<double> parse_number(std::string text) {
  text = text.substr(0, text.find(' '));
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

using Value = std::optional<double>;

Value sum(std::initializer_list<Value> values) {
  double total = 0;
  for (const Value& value : values) {
    if (!value) return std::nullopt;
    total += *value;
  }
  return total;
}

// No requests at all are no excess.
Value ratio(Value above, Value below) {
  if (!above || !below) return std::nullopt;
  return *below == 0 ? Value(0) : Value(*above / *below);
}

std::string plain(double value) {
  return value == static_cast<double>(static_cast<long long>(value)) ? grouped(value)
                                                                     : fmt::format("{:.2f}", value);
}
std::string percent(double value) { return fmt::format("{:.1f}%", value); }

class Gates {
 public:
  void show(const char* what, Value value, std::string (*text)(double) = plain) {
    gates_.push_back({what, value, value ? text(*value) : "not read", "", Gate::Outcome::no_limit});
  }
  void hold(const char* what, Value value, const std::string& limit, bool (*within)(double, double),
            double bound) {
    show(what, value);
    Gate& gate = gates_.back();
    gate.limit = limit;
    gate.outcome = !value                  ? Gate::Outcome::unread
                   : within(*value, bound) ? Gate::Outcome::passed
                                           : Gate::Outcome::failed;
  }
  void at_most(const char* what, Value value, double bound) {
    hold(
        what, value, fmt::format("<= {}", plain(bound)), [](double v, double b) { return v <= b; }, bound);
  }
  void below(const char* what, Value value, double bound) {
    hold(
        what, value, fmt::format("< {}", plain(bound)), [](double v, double b) { return v < b; }, bound);
  }
  void above(const char* what, Value value, double bound) {
    hold(
        what, value, fmt::format("> {}", plain(bound)), [](double v, double b) { return v > b; }, bound);
  }
  std::vector<Gate> take() { return std::move(gates_); }

 private:
  std::vector<Gate> gates_;
};

void judge_shared(const Profile& p, int rung, Gates& gates) {
  const Value requests = sum({p.at(kSharedLoads), p.at(kSharedStores), p.at(kLdmatrix)});
  const Value per_request = ratio(sum({p.at(kWavesLoads), p.at(kWavesStores)}), requests);
  const char* what = "shared-memory wavefronts per request";
  // Later rungs read 16 bytes a lane, where 4 is ideal: the next line says how far from ideal they are.
  if (rung == 2)
    gates.below(what, per_request, 2);
  else
    gates.show(what, per_request);
  gates.show("shared-memory wavefronts over ideal", ratio(p.at(kSharedByAddress), p.at(kSharedIdeal)));
  gates.show("shared-memory bank conflicts", p.at(kConflicts));
}

void judge_global(const Profile& p, int rung, Gates& gates) {
  gates.show("global sectors per load", p.at(kSectorsPerLoad));
  gates.show("global sectors per store", p.at(kSectorsPerStore));
  const Value over = ratio(p.at(kSectorsByAddress), p.at(kSectorsIdeal));
  if (rung >= 4)
    gates.at_most("global sectors over ideal", over, 1.01);
  else
    gates.show("global sectors over ideal", over);
  gates.at_most("local-memory sectors", sum({p.at(kLocalLoads), p.at(kLocalStores)}), 0);
}

}  // namespace

const std::vector<std::string>& profile_metrics() {
  static const std::vector<std::string> metrics = {
      kTime,         kSharedLoads,    kSharedStores,    kLdmatrix,    kWavesLoads,
      kWavesStores,  kConflicts,      kSharedByAddress, kSharedIdeal, kSectorsByAddress,
      kSectorsIdeal, kSectorsPerLoad, kSectorsPerStore, kLocalLoads,  kLocalStores,
      kTensor,       kTensorBusy,     kHalfAdds,        kFloatAdds,   kDram,
      kL2Hits,       kSmBusy,         kOccupancy,       kRegisters,   kSharedStatic,
      kSharedDynamic};
  return metrics;
}

std::optional<double> Profile::at(const std::string& metric) const {
  const auto found = metrics.find(metric);
  return found == metrics.end() ? std::nullopt : std::optional<double>(found->second);
}

std::vector<Profile> parse_profile(std::string_view output) {
  std::vector<Profile> profiles;
  Fields names;
  bool units_next = false;
  for (const std::string_view line : lines_of(output)) {
    if (line.empty() || line.front() != '"') continue;
    const Fields fields = split_csv(line);
    if (fields.front() == "ID") {
      names = fields;
      units_next = true;
    } else if (units_next) {
      units_next = false;
    } else if (!names.empty() && fields.size() == names.size()) {
      Profile profile;
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == "Kernel Name") profile.kernel = fields[i];
        if (names[i].find("__") == std::string::npos && names[i].rfind("memory_", 0) != 0) continue;
        if (const auto value = parse_number(fields[i])) profile.metrics[names[i]] = *value;
      }
      profiles.push_back(std::move(profile));
    }
  }
  return profiles;
}

std::vector<std::string> refused_metrics(std::string_view output) {
  const auto part_of_a_name = [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  };
  std::vector<std::string> refused;
  for (const std::string_view line : lines_of(output)) {
    if (line.rfind("==ERROR==", 0) != 0 && line.rfind("==WARNING==", 0) != 0) continue;
    for (const std::string& metric : profile_metrics()) {
      // ncu writes a pattern, "regex:^name\\.(sum|avg)$": what comes before the dot is the name.
      const std::string name = metric.substr(0, metric.find('.'));
      const std::size_t at = line.find(name), end = at + name.size();
      if (at == std::string_view::npos || (at > 0 && part_of_a_name(line[at - 1]))) continue;
      if (end == line.size() || !part_of_a_name(line[end])) refused.push_back(metric);
    }
  }
  return refused;
}

std::vector<Gate> judge_profile(const Profile& p, const core::Kernel& kernel) {
  const int rung = kernel.rung == 0 ? kProductionRung : kernel.rung;
  Gates gates;
  const Value ns = p.at(kTime);
  gates.show("time under the profiler", ns ? Value(*ns / 1e3) : ns, microseconds);
  judge_shared(p, rung, gates);
  judge_global(p, rung, gates);
  if (rung >= 5)
    gates.above("tensor instructions", p.at(kTensor), 0);
  else
    gates.show("tensor instructions", p.at(kTensor));
  gates.show("tensor pipe busy", p.at(kTensorBusy), percent);
  gates.show("fp16 adds", p.at(kHalfAdds));
  gates.show("fp32 adds", p.at(kFloatAdds));
  gates.show("DRAM throughput of peak", p.at(kDram), percent);
  gates.show("L2 hit rate", p.at(kL2Hits), percent);
  gates.show("SM busy", p.at(kSmBusy), percent);
  gates.show("occupancy reached", p.at(kOccupancy), percent);
  gates.at_most("registers per thread", p.at(kRegisters), kernel.budget.registers);
  gates.at_most("shared memory per block", sum({p.at(kSharedStatic), p.at(kSharedDynamic)}),
                kernel.budget.shared_bytes);
  return gates.take();
}

}  // namespace tessera::cli
