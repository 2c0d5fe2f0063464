#include "core/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cpu/threads.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::core {
namespace {

bool any_of(tessera_device_kind kind) {
  return std::any_of(kernels().begin(), kernels().end(),
                     [&](const Kernel& kernel) { return kernel.device == kind; });
}

std::string names_of(tessera_device_kind kind) {
  std::string names;
  for (const Kernel& kernel : kernels()) {
    if (kernel.device != kind) continue;
    if (!names.empty()) names += ", ";
    names += kernel.name;
  }
  return names;
}

// Why this kernel cannot be used here, or OK.
Status usable(const Kernel& kernel, const Problem& problem, const tessera_device& device) {
  if (std::string missing = kernel.missing(device); !missing.empty()) {
    return {TESSERA_DEVICE_UNAVAILABLE, std::move(missing)};
  }
  return kernel.supports(problem);
}

void choose(const Kernel& kernel, const Problem& problem, const tessera_device& device, Plan* out) {
  out->kernel = &kernel;
  out->launch = kernel.geometry(problem, device);
  out->cost = cost(problem);
}

Status plan_named(std::string_view name, const Problem& problem, const tessera_device& device, Plan* out) {
  for (const Kernel& kernel : kernels()) {
    if (kernel.name != name) continue;
    if (kernel.device != device.kind) break;
    if (Status s = usable(kernel, problem, device); !s.ok()) {
      s.message = fmt::format("kernel {} was asked for by name, but {}", name, s.message);
      return s;
    }
    choose(kernel, problem, device, out);
    out->reason = "asked for by name";
    return {};
  }
  return invalid(fmt::format("device.kernel is \"{}\"; this device has: {}", name, names_of(device.kind)));
}

// Each reason why there may be no such device has a sentence of its own.
Status check_present(const tessera_device& device) {
  const auto unavailable = [&](std::string_view why) -> Status {
    return {TESSERA_DEVICE_UNAVAILABLE, fmt::format("device.kind is {} ({}), but {}", device.kind,
                                                    device.kind == TESSERA_CPU ? "cpu" : "cuda", why)};
  };
  if (!any_of(device.kind)) {
    return unavailable(device.kind == TESSERA_CPU ? "this build of Tessera has no CPU kernels"
                                                  : "this build of Tessera has no CUDA kernels");
  }
  if (device.kind == TESSERA_CPU) return {};
  std::string why;
  if (cuda::runtime::find_gpu(device.index, &why) != nullptr) return {};
  return unavailable(why);
}

}  // namespace

Status check_device(const tessera_device& device) {
  if (device.kind != TESSERA_CPU && device.kind != TESSERA_CUDA) {
    return invalid(fmt::format("device.kind is {}; accepted: 1 (cpu), 2 (cuda)", device.kind));
  }
  if (device.index < 0)
    return invalid(fmt::format("device.index is {}; 0 or more is accepted", device.index));
  if (device.threads < 0 || device.threads > TESSERA_MAX_THREADS) {
    return invalid(fmt::format("device.threads is {}; 0 (all cores) to {} is accepted", device.threads,
                               TESSERA_MAX_THREADS));
  }
  if (device.kind == TESSERA_CPU && device.threads == 0 && !cpu::environment_threads().error.empty()) {
    return invalid(cpu::environment_threads().error);
  }
  if (device.kind == TESSERA_CUDA && device.run_tasks != nullptr) {
    return invalid("device.run_tasks is set, but a GPU runs no tasks; null is accepted");
  }
  if (device.kind == TESSERA_CPU && device.index != 0) {
    return invalid(fmt::format("device.index is {}; the CPU is device 0", device.index));
  }
  if (device.kind == TESSERA_CPU && device.stream != nullptr) {
    return invalid("device.stream is set, but the CPU has no streams; null is accepted");
  }
  return check_present(device);
}

Status plan(const Problem& problem, const tessera_device& device, Plan* out) {
  if (Status s = check_device(device); !s.ok()) return s;
  if (device.kernel != nullptr) return plan_named(device.kernel, problem, device, out);

  std::string passed_over;
  for (const Kernel& kernel : kernels()) {
    if (kernel.device != device.kind) continue;
    Status s = usable(kernel, problem, device);
    if (s.ok() && kernel.rather_not != nullptr) {
      if (std::string why = kernel.rather_not(problem, device); !why.empty()) s = unsupported(std::move(why));
    }
    if (s.ok()) {
      choose(kernel, problem, device, out);
      out->reason =
          passed_over.empty() ? "the best kernel of this device" : "the best kernel for this: " + passed_over;
      return {};
    }
    passed_over += fmt::format("{}{}: {}", passed_over.empty() ? "" : "; ", kernel.name, s.message);
  }
  return unsupported("no kernel can compute this problem: " + passed_over);
}

}  // namespace tessera::core
