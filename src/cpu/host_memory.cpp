// GPU memory given to the CPU. Part of every build, with nvcc or without: the memory may come from another
// library in the process. Asks the driver only if someone else has loaded it.
#include "cpu/host_memory.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <atomic>

namespace tessera::cpu {
namespace {

// cuPointerGetAttribute and the few constants it takes, as cuda.h has them.
using PointerGetAttribute = int (*)(void* value, int attribute, unsigned long long pointer);
constexpr int kMemoryType = 2;
constexpr int kIsManaged = 8;
constexpr unsigned kDeviceMemory = 2;

// How many libraries this process has ever loaded: far cheaper to ask than whether one of them is loaded.
unsigned long long libraries_loaded() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<unsigned long long*>(out) = info->dlpi_adds;
        return 1;  // the first entry says it already
      },
      &count);
  return count;
}

// Null as long as no driver is loaded.
PointerGetAttribute driver_function() {
  static std::atomic<PointerGetAttribute> known{nullptr};
  static std::atomic<unsigned long long> looked_at{0};
  if (PointerGetAttribute function = known.load(std::memory_order_acquire)) return function;
  const unsigned long long now = libraries_loaded();
  if (looked_at.load(std::memory_order_relaxed) == now) return nullptr;
  PointerGetAttribute function = nullptr;
  // Keeps the handle: a driver is never unloaded, and its function must not go away.
  if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    function = reinterpret_cast<PointerGetAttribute>(dlsym(driver, "cuPointerGetAttribute"));
    if (function == nullptr) dlclose(driver);
  }
  known.store(function, std::memory_order_release);
  looked_at.store(now, std::memory_order_relaxed);
  return function;
}

bool is_gpu_memory(PointerGetAttribute attribute, const void* data) {
  const auto pointer = static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(data));
  unsigned type = 0;
  // Memory that CUDA has never heard of is an error here, and the host's.
  if (attribute(&type, kMemoryType, pointer) != 0 || type != kDeviceMemory) return false;
  unsigned managed = 0;
  return attribute(&managed, kIsManaged, pointer) != 0 || managed == 0;
}

}  // namespace

core::Status check_on_host(std::string_view name, const void* data) {
  const PointerGetAttribute attribute = data != nullptr ? driver_function() : nullptr;
  if (attribute == nullptr || !is_gpu_memory(attribute, data)) return {};
  return core::invalid(fmt::format("{} is GPU memory, but device.kind is 1 (cpu)", name));
}

core::Status check_on_host(const core::Addresses& at, const tessera_device& device) {
  if (driver_function() == nullptr) return {};
  for (const core::TensorField& field : core::kTensorFields.values)
    if (core::Status s = check_on_host(field.name, at[field.id]); !s.ok()) return s;
  return check_on_host("device.workspace", device.workspace);
}

}  // namespace tessera::cpu
