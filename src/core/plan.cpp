#include "core/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/append.hpp"
#include "core/backend.hpp"

namespace tessera::core {
namespace {

std::string names_of(tessera_device_kind kind) {
  std::string names;
  for (const Kernel& kernel : kernels()) {
    if (kernel.device != kind) continue;
    if (!names.empty()) names += ", ";
    names += kernel.name;
  }
  return names;
}

// The hardware behind a request that passed check_device.
Status find(const tessera_device& request, const Hardware** out) {
  std::string why;
  *out = backend_of(request.kind)->find(request, &why);
  if (*out != nullptr) return {};
  return {TESSERA_DEVICE_UNAVAILABLE,
          fmt::format("device.kind is {} ({}), but {}", request.kind, backend_of(request.kind)->name(), why)};
}

// Why this kernel cannot be used here, or OK.
Status usable(const Kernel& kernel, const Problem& problem, const Device& device) {
  if (std::string missing = kernel.missing(device); !missing.empty()) {
    return {TESSERA_DEVICE_UNAVAILABLE, std::move(missing)};
  }
  if (device.request.invariant != 0 && !kernel.invariant)
    return unsupported(
        "device.invariant is set, and the bits of this kernel may depend on the rest of the batch");
  return takes(kernel, problem);
}

// Without a workspace, kernels that bring memory of their own take that.
Status check_room(const Prepared& prepared, const tessera_device& request) {
  const auto needed = static_cast<std::size_t>(prepared.workspace_bytes);
  const bool own = prepared.has_own_memory && request.workspace_bytes == 0;
  if (own || needed <= request.workspace_bytes) return {};
  return invalid(fmt::format("device.workspace_bytes is {}; {} are needed", request.workspace_bytes, needed));
}

Status prepare(const Kernel& kernel, const Problem& problem, const Device& device, Plan* out) {
  if (Status s = kernel.prepare(problem, device, &out->prepared); !s.ok()) return s;
  out->kernel = &kernel;
  return check_room(*out->prepared, device.request);
}

Status plan_named(const Problem& problem, const Device& device, Plan* out) {
  const std::string_view name = device.request.kernel;
  for (const Kernel& kernel : kernels()) {
    if (kernel.name != name || kernel.device != device.request.kind) continue;
    Status s = usable(kernel, problem, device);
    if (s.ok()) s = prepare(kernel, problem, device, out);
    if (!s.ok()) s.message = fmt::format("kernel {} was asked for by name, but {}", name, s.message);
    return s;
  }
  return invalid(
      fmt::format("device.kernel is \"{}\"; this device has: {}", name, names_of(device.request.kind)));
}

// Where a row's bits may not depend on the rest of the batch, nor may the kernel: the first of the table that
// can compute the problem is taken, whatever would be faster, unless this device has something against it.
double time_of(const Kernel& kernel, const Problem& problem, const Device& device) {
  const Estimate estimate = kernel.estimate(problem, device);
  const bool first_of_table = device.request.invariant != 0 || problem.by_entry();
  return !first_of_table ? estimate.us : estimate.why.empty() ? 0.0 : 1.0;
}

struct Candidate {
  const Kernel* kernel;
  double us;
};

// What can compute the problem, fastest first; the table's order where estimates are equal.
std::vector<Candidate> candidates(const Problem& problem, const Device& device) {
  std::vector<Candidate> found;
  found.reserve(kernels().size());
  for (const Kernel& kernel : kernels()) {
    if (kernel.device != device.request.kind || !kernel.estimate || !usable(kernel, problem, device).ok())
      continue;
    found.push_back({&kernel, time_of(kernel, problem, device)});
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.us < b.us || (a.us == b.us && a.kernel < b.kernel);
  });
  return found;
}

// Why not this kernel, where `best_us` is to be had; empty if it could as well be.
std::string why_not(const Kernel& kernel, const Problem& problem, const Device& device, double best_us) {
  if (Status s = usable(kernel, problem, device); !s.ok()) return s.message;
  const double us = time_of(kernel, problem, device);
  if (us > best_us) {
    const std::string_view why = kernel.estimate(problem, device).why;
    return why.empty() ? fmt::format("is estimated to take {:.2f} times as long", us / best_us)
                       : std::string(why);
  }
  Plan unused;
  return prepare(kernel, problem, device, &unused).message;
}

// Of every kernel above the chosen one in the table, and of any below that would be faster; of all where none
// was chosen.
std::string all_reasons(const Problem& problem, const Device& device, const Kernel* chosen, double best_us) {
  std::string reasons;
  bool above = true;
  for (const Kernel& kernel : kernels()) {
    above = above && &kernel != chosen;
    if (&kernel == chosen || kernel.device != device.request.kind || !kernel.estimate) continue;
    if (!above && !(usable(kernel, problem, device).ok() && time_of(kernel, problem, device) < best_us))
      continue;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", kernel.name,
                           why_not(kernel, problem, device, best_us));
  }
  return reasons;
}

}  // namespace

Status takes(const Kernel& kernel, const Problem& problem) {
  if (problem.mixed() && !kernel.mixed) {
    return unsupported(
        fmt::format("key.dtype is {} and query.dtype is {}; this kernel takes one dtype for both",
                    dtype_name(problem.kv.dtype), dtype_name(problem.dtype)));
  }
  if (problem.kv.tail_dim > 0 && !kernel.tail)
    return unsupported("key_tail is set; this kernel takes keys whose columns are all in one tensor");
  return kernel.supports(problem.append ? after_append(problem) : problem);
}

const Backend* backend_of(tessera_device_kind kind) {
  for (const Backend* backend : backends())
    if (backend->kind() == kind) return backend;
  return nullptr;
}

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> table = [] {
    std::vector<Kernel> rows;
    for (const Backend* backend : backends())
      for (Kernel& row : backend->kernels()) rows.push_back(std::move(row));
    return rows;
  }();
  return table;
}

Status check_device(const tessera_device& device) {
  const Backend* const backend = backend_of(device.kind);
  if (backend == nullptr) {
    return invalid(fmt::format("device.kind is {}; accepted: 1 (cpu), 2 (cuda)", device.kind));
  }
  if (device.index < 0)
    return invalid(fmt::format("device.index is {}; 0 or more is accepted", device.index));
  if (device.threads < 0 || device.threads > TESSERA_MAX_THREADS) {
    return invalid(fmt::format("device.threads is {}; 0 (all cores) to {} is accepted", device.threads,
                               TESSERA_MAX_THREADS));
  }
  if (device.workspace != nullptr && device.workspace_bytes == 0)
    return invalid("device.workspace is set, but device.workspace_bytes is 0");
  if (Status s = backend->check_request(device); !s.ok()) return s;
  const Hardware* unused = nullptr;
  return find(device, &unused);
}

namespace {

// Of a problem that has nothing to do before its attention.
Status plan_attention(const Problem& problem, const Device& device, Plan* out) {
  const tessera_device& request = device.request;
  if (request.kernel != nullptr) return plan_named(problem, device, out);
  Status no_room;
  for (const Candidate& candidate : candidates(problem, device)) {
    if (Status s = candidate.kernel->prepare(problem, device, &out->prepared); !s.ok()) return s;
    out->kernel = candidate.kernel;
    Status room = check_room(*out->prepared, request);
    if (room.ok()) return {};
    if (out->prepared->has_own_memory)
      return room;  // a slower kernel with less scratch is not what was meant
    if (no_room.ok()) no_room = std::move(room);
  }
  if (!no_room.ok()) return no_room;  // of the fastest: a larger workspace helps
  constexpr double kNever = std::numeric_limits<double>::infinity();
  return unsupported("no kernel can compute this problem: " + all_reasons(problem, device, nullptr, kNever));
}

}  // namespace

Status plan(const Problem& problem, const tessera_device& request, Plan* out) {
  const Hardware* hardware = nullptr;
  if (Status s = find(request, &hardware); !s.ok()) return s;
  if (!problem.append) return plan_attention(problem, {request, *hardware}, out);
  // The budget is one for both, and looked at when both are known.
  tessera_device without_budget = request;
  without_budget.workspace_bytes = 0;
  const Device device{without_budget, *hardware};
  if (Status s = plan_attention(after_append(problem), device, out); !s.ok()) return s;
  const Backend& backend = *backend_of(request.kind);
  std::shared_ptr<const Prepared> attend = std::move(out->prepared);
  if (Status s = backend.prepare_append(problem, device, std::move(attend), &out->prepared); !s.ok())
    return s;
  return check_room(*out->prepared, request);
}

std::string why(const Plan& plan, const Problem& given, const tessera_device& request) {
  if (request.kernel != nullptr) return "asked for by name";
  const Hardware* hardware = nullptr;
  if (Status s = find(request, &hardware); !s.ok()) return s.message;
  const Device device{request, *hardware};
  const Problem problem = after_append(given);
  const std::string passed_over =
      all_reasons(problem, device, plan.kernel, time_of(*plan.kernel, problem, device));
  return passed_over.empty() ? "the best kernel of this device" : "the best kernel for this: " + passed_over;
}

std::string missing(const Kernel& kernel, const tessera_device& request) {
  std::string why;
  const Hardware* const hardware = backend_of(kernel.device)->find(request, &why);
  return hardware == nullptr ? why : kernel.missing({request, *hardware});
}

}  // namespace tessera::core
