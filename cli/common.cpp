// Shared odds and ends of the verbs; see common.hpp.
#include "cli/common.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>
#include <fstream>
#include <numeric>
#include <thread>
#include <utility>

#include "cli/commit.hpp"  // written by the build

namespace tessera::cli {
namespace {

std::string& stored_command_line() {
  static std::string text = "tessera";
  return text;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Where a flag is not the field with other punctuation.
constexpr std::pair<std::string_view, std::string_view> kOtherFlags[] = {
    {"mask.tensor", "--mask"},    {"mask.tensor_align", "--mask-align"},
    {"mask.align", "--causal"},   {"mask.align", "--align"},
    {"mask.left", "--window"},    {"mask.right", "--window"},
    {"alibi_slopes", "--alibi"},  {"scale_rows", "--scales"},
    {"device.index", "--gpu"},    {"device.threads", "--threads"},
    {"device.kernel", "--kernel"}};

// "--a or --b", or "" where the options have none, or where the flag is the field's own name.
std::string flags_of_field(std::string_view field, const std::vector<std::string>& options) {
  const auto known = [&](std::string_view flag) {
    return std::find(options.begin(), options.end(), flag) != options.end();
  };
  std::string flags;
  for (const auto& [other, flag] : kOtherFlags)
    if (other == field && known(flag)) flags += fmt::format("{}{}", flags.empty() ? "" : " or ", flag);
  if (!flags.empty()) return flags;
  std::string mechanical = fmt::format("--{}", field);
  for (char& c : mechanical)
    if (c == '_' || c == '.') c = '-';
  return known(mechanical) && mechanical.substr(2) != field ? mechanical : "";
}

}  // namespace

std::string flags_of_fields(std::string_view sentence, const std::vector<std::string>& options) {
  constexpr std::string_view kOfFields = "abcdefghijklmnopqrstuvwxyz_.";
  std::string all;
  for (std::size_t at = 0; (at = sentence.find_first_of(kOfFields, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(sentence.find_first_not_of(kOfFields, at), sentence.size());
    // "rope.cos.shape" is about rope.cos.
    for (std::string_view field = sentence.substr(at, end - at); !field.empty();) {
      const std::string flags = flags_of_field(field, options);
      const std::string part = fmt::format("{} is {}", field, flags);
      if (!flags.empty() && all.find(part) == std::string::npos) all += (all.empty() ? "" : ", ") + part;
      if (!flags.empty() || field.find('.') == std::string_view::npos) break;
      field = field.substr(0, field.rfind('.'));
    }
    at = end;
  }
  return all.empty() ? "" : fmt::format("Here {}.", all);
}

void stop_unless_ok(const core::Status& status) {
  if (status.ok()) return;
  const int exit_code = status.code == TESSERA_INVALID_ARGUMENT ? kExitUsage
                        : status.code == TESSERA_INTERNAL       ? kExitNoAnswer
                                                                : kExitUnavailable;
  throw Refusal(exit_code, status.message);
}

void stop_unless_ok(tessera_status code) {
  if (code != TESSERA_OK) stop_unless_ok(core::Status{code, tessera_last_error()});
}

void usage_error(const std::string& message) { throw Stop(kExitUsage, message); }

const Machine& this_machine() {
  static const Machine machine = [] {
    const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
    return Machine{cpu_name(), usable_cores(), pages * static_cast<double>(sysconf(_SC_PAGESIZE))};
  }();
  return machine;
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string commit() { return TESSERA_COMMIT; }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

const std::string& command_line() { return stored_command_line(); }

void remember_command_line(int argc, char** argv) {
  std::string text = "tessera";
  for (int i = 1; i < argc; ++i) text += " " + shell_quote(argv[i]);
  stored_command_line() = text;
}

std::string shell_quote(std::string_view word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("-_=./,:+%", c) != nullptr;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string nearest(std::string_view typed, const std::vector<std::string>& known) {
  std::string best;
  // Of a short word more than half must be right.
  std::size_t best_distance = std::min(std::max<std::size_t>(2, typed.size() / 3), typed.size() / 2) + 1;
  for (const std::string& word : known) {
    const std::size_t distance = edit_distance(typed, word);
    if (distance < best_distance) best = word, best_distance = distance;
  }
  return best;
}

}  // namespace tessera::cli
