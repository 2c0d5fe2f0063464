// `tessera profile`: Nsight Compute on one launch of a kernel, its counters held to the kernel's limits. ncu
// runs this very program again as its target (`profile --target`), which launches the kernel and does nothing
// else.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cases/gates.hpp"
#include "cli/common.hpp"
#include "cli/history.hpp"
#include "cli/json.hpp"
#include "cli/profile_gates.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/values.hpp"
#include "core/plan.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cli {
namespace {

constexpr int kWarmUps = 1;  // launches that ncu lets pass before the one it counts

struct ProfileOptions {
  CaseFlags cases;
  DeviceFlags device;
  std::string ncu;
  bool target = false;
  bool json = false;
};

struct Report {
  cases::Case shape;
  std::string kernel;
  std::string why_not;  // empty if it was profiled
  Profile profile;
  std::vector<Gate> gates;
};

bool runnable(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) && access(path.c_str(), X_OK) == 0;
}

// As given, on the PATH, or where CUDA and Nsight Compute install themselves.
std::string find_ncu(const std::string& given) {
  if (!given.empty()) {
    if (!runnable(given)) usage_error(fmt::format("--ncu '{}' is not a program", given));
    return given;
  }
  const char* path = std::getenv("PATH");
  std::string folders = fmt::format("{}:/usr/local/cuda/bin:/usr/local/bin", path == nullptr ? "" : path);
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const std::string folder = folders.substr(begin, end - begin);
    if (!folder.empty() && runnable(folder + "/ncu")) return folder + "/ncu";
    begin = end + 1;
  }
  throw Stop(
      kExitUnavailable,
      "no Nsight Compute here: there is no `ncu` on the PATH nor in /usr/local/cuda/bin. It comes with the "
      "CUDA toolkit (package nsight-compute); --ncu names it elsewhere");
}

struct CommandOutcome {
  int exit_code = -1;
  std::string output;
};

CommandOutcome run_command(const std::string& command) {
  CommandOutcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");  // NOLINT: every word of the command is quoted
  if (pipe == nullptr) throw Stop(kExitFailed, "no process could be started");
  std::array<char, 1 << 16> buffer{};
  for (std::size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

// "ladder::scalar<" of "ladder::scalar<true": ncu writes template arguments in its own way.
std::string function_pattern(std::string_view symbol) {
  std::string pattern = "regex:";
  for (const char c : symbol.substr(0, symbol.find('<'))) {
    if (std::string_view(R"(.^$|()[]{}*+?\)").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return symbol.find('<') == std::string_view::npos ? pattern : pattern + "<";
}

std::string ncu_command(const std::string& ncu, const std::vector<std::string>& metrics, const cases::Case& c,
                        const core::Kernel& kernel, const tessera_device& device) {
  std::string joined;
  for (const std::string& metric : metrics) joined += (joined.empty() ? "" : ",") + metric;
  std::vector<std::string> words = {ncu};
  // Clocks are left alone: they belong to whoever else uses this GPU.
  for (const char* word : {"--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base",
                           "--kernel-name-base", "demangled", "--kernel-name"})
    words.emplace_back(word);
  words.push_back(function_pattern(kernel.symbol));
  for (const std::string& word :
       {std::string("--launch-skip"), std::to_string(kWarmUps), std::string("--launch-count"),
        std::string("1"), std::string("--metrics"), joined})
    words.push_back(word);
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  for (const std::string& word : {std::string("profile"), std::string("--target"), std::string("--kernel"),
                                  std::string(kernel.name), std::string("--case"), cases::words(c)})
    words.push_back(word);
  if (device.index != 0) words.insert(words.end(), {"--gpu", std::to_string(device.index)});
  std::string command = "LC_ALL=C";
  for (const std::string& word : words) command += " " + shell_quote(word);
  return command + " 2>&1";
}

// The last lines that say something: ncu's own complaint, or what the target said.
std::string end_of(const std::string& output) {
  constexpr std::size_t kMost = 600;
  return output.size() <= kMost ? output : "..." + output.substr(output.size() - kMost);
}

// Counters that this GPU turns out not to have are taken off the list.
Report profile_one(const std::string& ncu, std::vector<std::string>& metrics, const cases::Case& c,
                   const core::Kernel& kernel, const tessera_device& device) {
  Report report{c, std::string(kernel.name), "", {}, {}};
  while (true) {  // ncu stops at the first counter that this GPU does not have: again without it
    const CommandOutcome outcome = run_command(ncu_command(ncu, metrics, c, kernel, device));
    const std::vector<Profile> found = parse_profile(outcome.output);
    if (outcome.exit_code == 0 && !found.empty()) {
      report.profile = found.back();
      report.gates = judge_profile(report.profile, kernel);
      report.why_not.clear();
      return report;
    }
    report.why_not =
        fmt::format("ncu ended with {} and no counters: {}", outcome.exit_code, end_of(outcome.output));
    const std::size_t before = metrics.size();
    for (const std::string& refused : refused_metrics(outcome.output))
      metrics.erase(std::remove(metrics.begin(), metrics.end(), refused), metrics.end());
    if (metrics.size() == before || metrics.empty()) return report;
  }
}

// The plan's choice, or the kernels named; "all" is every one that can compute the case here, which may be
// none.
std::vector<const core::Kernel*> chosen_kernels(const cases::Case& c, const ProfileOptions& options,
                                                const tessera_device& device) {
  const core::Problem problem = validated(c);
  const std::vector<std::string>& named = options.device.kernels;
  if (named.empty()) {
    core::Plan plan;
    if (const core::Status s = core::plan(problem, device, &plan); !s.ok())
      throw Stop(kExitUnavailable, fmt::format("case '{}': {}", c.name, s.message));
    return {plan.kernel};
  }
  const bool all = std::count(named.begin(), named.end(), "all") > 0;
  std::vector<const core::Kernel*> kernels;
  for (const Candidate& each : candidates(device, all ? std::vector<std::string>{} : named)) {
    const core::Status status = core::takes(*each.kernel, problem);
    if (each.missing.empty() && status.ok())
      kernels.push_back(each.kernel);
    else if (!all)
      throw Stop(kExitUnavailable,
                 fmt::format("{} cannot compute '{}': {}", each.name, c.name, status.message));
  }
  return kernels;
}

// What ncu and compute-sanitizer look at: a warm-up and the launch that counts, and nothing else on the GPU.
int run_target(const ProfileOptions& options, tessera_device device) {
  int launches = 0;
  for (const cases::Case& c : options.cases.resolve({})) {
    cases::Instance instance(c, cases::Input::normal, 1);
    for (const core::Kernel* kernel : chosen_kernels(c, options, device)) {
      const std::string name(kernel->name);
      device.kernel = name.c_str();
      for (int launch = 0; launch <= kWarmUps; ++launch, ++launches)
        if (const std::string why = cases::attend_with_library(instance.problem(), device); !why.empty())
          throw Stop(kExitFailed, fmt::format("{} on '{}': {}", name, c.name, why));
    }
  }
  fmt::print(stderr, "{} launches\n", launches);
  return kExitOk;
}

bool well(const Gate& gate) {
  return gate.outcome == Gate::Outcome::passed || gate.outcome == Gate::Outcome::no_limit;
}

bool well(const Report& report) {
  return report.why_not.empty() &&
         std::all_of(report.gates.begin(), report.gates.end(), [](const Gate& gate) { return well(gate); });
}

const char* word(Gate::Outcome outcome) {
  switch (outcome) {
    case Gate::Outcome::passed:
      return "pass";
    case Gate::Outcome::failed:
      return "FAIL";
    case Gate::Outcome::unread:
      return "not read";
    default:
      return "";
  }
}

void print_report(const Report& report) {
  fmt::print("{}  {}\n", paint(Ink::bold, report.kernel), report.shape.name);
  if (!report.why_not.empty()) {
    fmt::print("  {}\n\n", paint(Ink::red, report.why_not));
    return;
  }
  Table table({{"gate"}, {"value", Table::Side::right}, {"limit", Table::Side::right}, {""}});
  for (const Gate& gate : report.gates)
    table.add(
        {gate.what, gate.text, gate.limit, paint(well(gate) ? Ink::green : Ink::red, word(gate.outcome))});
  fmt::print("{}\n", table.text());
}

Json machine_json(const tessera_device& device) {
  std::string why;
  const cuda::runtime::Gpu* gpu = cuda::runtime::find_gpu(device.index, &why);
  const gpu::GpuState state = gpu::gpu_state(device.index);
  return gpu == nullptr ? Json() : gpu_machine_json(*gpu, state, state);
}

Json report_json(const std::vector<Report>& reports, const std::string& ncu, const tessera_device& device) {
  Json json = {{"date", utc_now()},
               {"commit", commit()},
               {"command", command_line()},
               {"machine", machine_json(device)},
               {"ncu", run_command(shell_quote(ncu) + " --version | tail -n 1").output},
               {"profiles", Json::array()}};
  for (const Report& report : reports) {
    Json one = case_json(report.shape);
    one["kernel"] = report.kernel;
    one["passed"] = well(report);
    if (!report.why_not.empty()) one["why_not"] = report.why_not;
    one["gates"] = Json::array();
    for (const Gate& gate : report.gates) {
      Json entry = {
          {"what", gate.what}, {"value", nullptr}, {"limit", gate.limit}, {"outcome", word(gate.outcome)}};
      if (gate.value) entry["value"] = *gate.value;
      one["gates"].push_back(entry);
    }
    one["metrics"] = report.profile.metrics;
    json["profiles"].push_back(one);
  }
  return json;
}

int profile(const ProfileOptions& options) {
  if (options.device.device != "cuda")
    usage_error(fmt::format("--device '{}': only cuda kernels can be profiled", options.device.device));
  const tessera_device device = options.device.resolve();
  if (options.target) return run_target(options, device);
  const std::string ncu = find_ncu(options.ncu);
  const std::vector<cases::Case> chosen = options.cases.resolve({*cases::find("mission512")});

  std::vector<Report> reports;
  std::vector<std::string> metrics = profile_metrics();
  for (const cases::Case& c : chosen) {
    const std::vector<const core::Kernel*> kernels = chosen_kernels(c, options, device);
    if (kernels.empty())
      throw Stop(kExitUnavailable, fmt::format("case '{}': no kernel can compute it", c.name));
    Progress progress("profile " + c.name, kernels.size());
    for (const core::Kernel* kernel : kernels) {
      reports.push_back(profile_one(ncu, metrics, c, *kernel, device));
      progress.tick(kernel->name);
    }
  }
  if (options.json)
    print_json(report_json(reports, ncu, device));
  else
    for (const Report& report : reports) print_report(report);
  if (std::all_of(reports.begin(), reports.end(), [](const Report& r) { return !r.why_not.empty(); }))
    throw Stop(kExitUnavailable, fmt::format("nothing could be profiled: {}", reports.front().why_not));
  return std::all_of(reports.begin(), reports.end(), [](const Report& r) { return well(r); }) ? kExitOk
                                                                                              : kExitFailed;
}

}  // namespace

void add_profile(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ProfileOptions>();
  options->device.device = "cuda";
  CLI::App* verb = app.add_subcommand("profile", "Count what a GPU kernel does with Nsight Compute");
  options->cases.add_to(*verb);
  options->device.add_to(*verb,
                         "This kernel instead of the plan's choice; may be repeated; 'all' for every one");
  file_name(verb->add_option("--ncu", options->ncu, "The program ncu, where it is not on the PATH"));
  verb->add_flag("--json", options->json, "The result as JSON on stdout, with every counter");
  verb->add_flag("--target", options->target, "")->group("");  // what ncu is pointed at
  verb->footer(
      R"(One launch is counted, after a warm-up; clocks are never touched. Limits are those of the kernel's rung: under 2
shared-memory wavefronts per request at rung 2, no global sector too many from rung 4 on, tensor instructions from
rung 5 on; for every kernel no local memory, and registers and shared memory within its budget. Production kernels
hold the limits of all rungs.

Examples:
  tessera profile                                      mission512 with the kernel the plan chooses
  tessera profile canon_1 --kernel tensor_pv
  tessera profile mission512 --kernel all --json
  tessera profile "b1 h8 q1024 k1024 d128 f16" --kernel registers --kernel pipelined

Exit code 1: beyond a limit, or a counter was not read. `tessera --help` has all codes.)");
  verb->callback([options, exit_code] { *exit_code = profile(*options); });
}

}  // namespace tessera::cli
