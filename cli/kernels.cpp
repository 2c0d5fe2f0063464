// `tessera kernels`: what this build can do, what of it runs here, and why a problem gets the kernel it gets.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/common.hpp"
#include "cli/json.hpp"
#include "cli/select.hpp"
#include "cli/term.hpp"
#include "cli/values.hpp"
#include "core/plan.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cli {
namespace {

struct KernelsOptions {
  std::vector<std::string> why;
  bool list_cases = false;
  std::string device = "cpu";
  int threads = 0;
  int gpu = 0;
  bool json = false;
};

const char* device_name(tessera_device_kind kind) { return kind == TESSERA_CPU ? "cpu" : "cuda"; }

tessera_device device_of(tessera_device_kind kind, const KernelsOptions& options) {
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = kind;
  device.threads = options.threads;
  if (kind == TESSERA_CUDA) device.index = options.gpu;
  return device;
}

Json gpu_json(const cuda::runtime::Gpu& gpu) {
  return {{"index", gpu.index}, {"name", gpu.name},         {"arch", gpu.arch},
          {"sms", gpu.sms},     {"l2_bytes", gpu.l2_bytes}, {"memory_bytes", gpu.memory_bytes}};
}

void print_matrix(const KernelsOptions& options) {
  Json json = Json::array();
  Table table({{"kernel"}, {"device"}, {"runs here"}, {"what it is"}});
  const bool cuda = cuda::runtime::in_build();
  std::string no_gpu;
  const cuda::runtime::Gpu* gpu = cuda::runtime::find_gpu(options.gpu, &no_gpu);
  for (const core::Kernel& kernel : core::kernels()) {
    const std::string missing = core::missing(kernel, device_of(kernel.device, options));
    json.push_back({{"name", kernel.name},
                    {"device", device_name(kernel.device)},
                    {"runs_here", missing.empty()},
                    {"missing", missing},
                    {"rung", kernel.rung},
                    {"summary", kernel.summary}});
    table.add({std::string(kernel.name), device_name(kernel.device),
               missing.empty() ? paint(Ink::green, "yes") : paint(Ink::yellow, "no: " + missing),
               std::string(kernel.summary)});
  }
  if (options.json) {
    Json all = {{"kernels", json}, {"cuda_in_build", cuda}};
    all["gpu"] = gpu == nullptr ? Json() : gpu_json(*gpu);
    all["gpu_missing"] = no_gpu;
    return print_json(all);
  }
  fmt::print("{}", table.text());
  if (gpu != nullptr)
    fmt::print("\nGPU {}: {}, sm_{}, {} SMs, {}\n", gpu->index, gpu->name, gpu->arch, gpu->sms,
               si(static_cast<double>(gpu->memory_bytes), "B"));
  else
    fmt::print("{}\n", paint(Ink::dim, fmt::format("  No GPU: {}.", no_gpu)));
  fmt::print(
      "\nEvery kernel is verified with `tessera verify`; `tessera kernels --why CASE` explains a choice.\n");
}

void print_cases(const KernelsOptions& options) {
  Json json = Json::array();
  Table table({{"case"},
               {"group"},
               {"work", Table::Side::right},
               {"traffic", Table::Side::right, true},
               {"in words"}});
  for (const cases::Case& c : cases::named()) {
    const cases::Work work = cases::work(c);
    json.push_back(case_json(c));
    table.add({c.name, c.group, si(work.flops, "FLOP"), si(work.bytes, "B"), cases::words(c)});
  }
  if (options.json) return print_json({{"cases", json}});
  fmt::print("{}", table.text());
}

// What each kernel of the device says to the problem: "" means it can.
std::string verdict(const core::Kernel& kernel, const core::Problem& problem, const tessera_device& device) {
  if (std::string missing = core::missing(kernel, device); !missing.empty()) return missing;
  return core::takes(kernel, problem).message;
}

Json explain(const cases::Case& c, const tessera_device& device, bool* planned) {
  const core::Problem problem = validated(c);
  core::Plan plan;
  const core::Status status = core::plan(problem, device, &plan);
  *planned = status.ok();
  Json json = {{"case", c.name}, {"words", cases::words(c)}, {"supported", status.ok()}};
  if (status.ok()) {
    json["kernel"] = plan.kernel->name;
    json["reason"] = core::why(plan, problem, device);
    json["geometry"] = {{"work_items", plan.prepared->work_items},
                        {"threads", plan.prepared->threads},
                        {"splits", plan.prepared->splits},
                        {"workspace_bytes", plan.prepared->workspace_bytes},
                        {"reason", plan.prepared->words()}};
    const core::Cost cost = core::cost(problem);
    json["flops"] = cost.flops;
    json["bytes"] = cost.bytes;
  } else {
    json["reason"] = status.message;
  }
  json["others"] = Json::array();
  for (const core::Kernel& kernel : core::kernels()) {
    if (kernel.device != device.kind || &kernel == plan.kernel) continue;
    const std::string no = verdict(kernel, problem, device);
    json["others"].push_back({{"name", kernel.name}, {"can", no.empty()}, {"why_not", no}});
  }
  return json;
}

void print_why(const Json& why) {
  const auto text = [](const Json& value) { return value.get<std::string>(); };
  const bool named = why["case"] != why["words"];
  fmt::print("{}{}\n", paint(Ink::bold, text(why["case"])),
             named ? "  " + paint(Ink::dim, text(why["words"])) : "");
  if (!why["supported"].get<bool>()) {
    fmt::print("  {}  {}\n", paint(Ink::red, "no kernel"), text(why["reason"]));
  } else {
    const Json& g = why["geometry"];
    const auto splits = g["splits"].get<int>();
    fmt::print("  kernel    {}: {}\n", paint(Ink::green, text(why["kernel"])), text(why["reason"]));
    fmt::print("  geometry  {} work items on {} threads, {}, {} of workspace\n",
               grouped(g["work_items"].get<double>()), g["threads"].get<int>(),
               splits > 1 ? fmt::format("keys cut into {}", splits) : "keys in one piece",
               si(g["workspace_bytes"].get<double>(), "B"));
    if (!text(g["reason"]).empty()) fmt::print("            {}\n", text(g["reason"]));
    fmt::print("  cost      {}, at least {} of traffic\n", si(why["flops"].get<double>(), "FLOP"),
               si(why["bytes"].get<double>(), "B"));
  }
  for (const Json& other : why["others"])  // the refusals of better kernels are in the reason already
    if (other["can"].get<bool>())
      fmt::print("  {}\n",
                 paint(Ink::dim, fmt::format("{} could too; the table puts it behind", text(other["name"]))));
    else if (text(why["reason"]).find(text(other["why_not"])) == std::string::npos)
      fmt::print("  {}\n",
                 paint(Ink::dim, fmt::format("{}: {}", text(other["name"]), text(other["why_not"]))));
}

int explain_all(const KernelsOptions& options) {
  DeviceFlags flags;
  flags.device = options.device;
  flags.threads = options.threads;
  flags.gpu = options.gpu;
  const tessera_device device = flags.resolve();
  CaseFlags cases_flags;
  cases_flags.texts = options.why;
  Json all = Json::array();
  bool supported = true;
  for (const cases::Case& c : cases_flags.resolve({})) {
    bool planned = false;
    all.push_back(explain(c, device, &planned));
    supported = supported && planned;
    if (!options.json) print_why(all.back());
  }
  if (options.json) print_json({{"device", options.device}, {"plans", all}});
  return supported ? kExitOk : kExitFailed;
}

int run(const KernelsOptions& options) {
  if (!options.why.empty()) return explain_all(options);
  if (options.list_cases)
    print_cases(options);
  else
    print_matrix(options);
  return kExitOk;
}

}  // namespace

void add_kernels(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* verb =
      app.add_subcommand("kernels", "Which kernels there are, and why a problem gets the one it gets");
  verb->add_option("--why", options->why, "Explain the plan for a case, by name or in words; may be repeated")
      ->type_name("CASE");
  verb->add_flag("--cases", options->list_cases, "List the named cases with their work");
  verb->add_option("--device", options->device, "cpu or cuda, for --why")
      ->type_name("DEVICE")
      ->capture_default_str();
  thread_count(verb->add_option("--threads", options->threads, "CPU threads, for --why; 0 means all cores"));
  whole_number(verb->add_option("--gpu", options->gpu, "Which GPU; 0 is the first"), 0, 1023);
  verb->add_flag("--json", options->json, "The result as JSON on stdout");
  verb->footer(R"(Examples:
  tessera kernels
  tessera kernels --why mission512
  tessera kernels --why "b1 h32/8 q1 k32768 d128 f16" --threads 1
  tessera kernels --why canon_1 --device cuda
  tessera kernels --cases --json

Exit code 1: with --why, no kernel can compute the case. `tessera --help` has all codes.)");
  verb->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace tessera::cli
