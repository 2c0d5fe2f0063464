// Case, device and kernel selection; see select.hpp.
#include "cli/select.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "cases/tensors.hpp"
#include "cli/common.hpp"
#include "cli/values.hpp"
#include "core/plan.hpp"

namespace tessera::cli {
namespace {

cases::Case parse_or_stop(const std::string& text) {
  std::string error;
  if (auto found = cases::parse(text, &error)) return *found;
  std::vector<std::string> names;
  for (const cases::Case& c : cases::named()) names.push_back(c.name);
  const std::string near = nearest(text, names);
  usage_error(fmt::format("case '{}': {}{}\n(`tessera kernels --cases` lists the names)", text, error,
                          near.empty() ? "" : fmt::format("\nDid you mean '{}'?", near)));
}

tessera_dtype parse_dtype(const std::string& text) {
  for (const tessera_dtype dtype : {TESSERA_F32, TESSERA_F16, TESSERA_BF16})
    if (text == tessera_dtype_name(dtype)) return dtype;
  usage_error(fmt::format("--dtype '{}' is unknown; accepted: f32, f16, bf16", text));
}

}  // namespace

void CaseFlags::add_to(CLI::App& verb) {
  // One option, so that `verify canon_1` and `verify --case canon_1` are the same thing.
  verb.add_option("case,--case", texts,
                  "A case by name (canon_1) or in words (\"b2 h8/2 q256 k300 d64 f16\")")
      ->type_name("CASE");
  verb.add_option("--group", groups, "Every case of a group; may be repeated")->type_name("GROUP");
  verb.add_option("--dtype", dtype, "Run the cases in this dtype: f32, f16, bf16")->type_name("DTYPE");
  verb.add_option("--causal", causal, "Make the cases causal: top-left, bottom-right")->type_name("ALIGN");
}

std::vector<cases::Case> CaseFlags::resolve(const std::vector<cases::Case>& fallback) const {
  std::vector<cases::Case> chosen_cases;
  for (const std::string& text : texts) chosen_cases.push_back(parse_or_stop(text));
  for (const std::string& group : groups) {
    const auto members = cases::in_group(group);
    if (members.empty())
      usage_error(
          fmt::format("--group '{}' is unknown; groups: {}", group, fmt::join(cases::groups(), ", ")));
    chosen_cases.insert(chosen_cases.end(), members.begin(), members.end());
  }
  if (!chosen()) chosen_cases = fallback;
  if (!causal.empty() && causal != "top-left" && causal != "bottom-right")
    usage_error(fmt::format("--causal '{}' is unknown; accepted: top-left, bottom-right", causal));
  for (cases::Case& c : chosen_cases) {
    const cases::Case before = c;
    if (!dtype.empty()) c.dtype = parse_dtype(dtype);
    if (!causal.empty()) {
      c.align = causal == "top-left" ? TESSERA_ALIGN_TOP_LEFT : TESSERA_ALIGN_BOTTOM_RIGHT;
      c.right = 0;
    }
    if (!(c == before)) c.name = cases::words(c);
  }
  return chosen_cases;
}

void DeviceFlags::add_to(CLI::App& verb, const std::string& kernel_help) {
  verb.add_option("--device", device, "cpu or cuda")->type_name("DEVICE")->capture_default_str();
  if (!kernel_help.empty()) verb.add_option("--kernel", kernels, kernel_help)->type_name("NAME");
  thread_count(
      verb.add_option("--threads", threads, "CPU threads; 0 means TESSERA_NUM_THREADS, else all cores"))
      ->capture_default_str();
  whole_number(verb.add_option("--gpu", gpu, "Which GPU, with --device cuda"), 0, 1023)
      ->capture_default_str();
}

void add_seed(CLI::App& verb, std::uint64_t* seed) {
  whole_number(verb.add_option("--seed", *seed, "Seed of the inputs"), 0,
               std::numeric_limits<std::uint64_t>::max())
      ->capture_default_str();
}

tessera_device DeviceFlags::resolve() const {
  tessera_device d = TESSERA_DEVICE_INIT;
  d.threads = threads;
  if (device == "cuda")
    d.kind = TESSERA_CUDA, d.index = gpu;
  else if (device != "cpu")
    usage_error(fmt::format("--device '{}' is unknown; accepted: cpu, cuda", device));
  stop_unless_ok(core::check_device(d));
  return d;
}

std::vector<Candidate> candidates(const tessera_device& device, const std::vector<std::string>& names) {
  std::vector<Candidate> all;
  std::vector<std::string> known;
  for (const core::Kernel& kernel : core::kernels()) {
    if (kernel.device != device.kind) continue;
    known.emplace_back(kernel.name);
    all.push_back({&kernel, std::string(kernel.name), core::missing(kernel, device)});
  }
  if (names.empty()) return all;

  std::vector<Candidate> chosen;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.name == name; });
    if (found == all.end())
      usage_error(
          fmt::format("--kernel '{}' is unknown; kernels of this device: {}", name, fmt::join(known, ", ")));
    if (!found->missing.empty())
      throw Stop(kExitUnavailable, fmt::format("kernel {} cannot run here: {}", name, found->missing));
    chosen.push_back(*found);
  }
  return chosen;
}

core::Problem validated(const cases::Case& c) {
  core::Problem problem;
  if (const core::Status status = cases::validated(c, &problem); !status.ok())
    usage_error(fmt::format("case '{}': {}", c.name, status.message));
  return problem;
}

core::Problem validated(const cases::Instance& instance) {
  core::Problem problem;
  if (const core::Status status = core::validate(instance.problem(), &problem); !status.ok())
    usage_error(fmt::format("case '{}': {}", instance.shape().name, status.message));
  return problem;
}

}  // namespace tessera::cli
