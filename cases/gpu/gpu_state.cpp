// Driver version, clocks, temperature and power: from NVML where it is installed, which it is with every
// driver; loaded by name, so that nothing has to be linked.
#include <dlfcn.h>
#include <fmt/format.h>

#include "cases/gpu/memory.hpp"
#include "cuda/runtime/cuda_call.hpp"

namespace tessera::gpu {
namespace {

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// The few functions of NVML that are asked, with the numbers that nvml.h has for their constants.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    int (*start)() = nullptr;
    ready_ = load("nvmlInit_v2", &start) && load("nvmlDeviceGetHandleByPciBusId_v2", &by_bus) &&
             load("nvmlDeviceGetClockInfo", &clock) && load("nvmlDeviceGetMaxClockInfo", &max_clock) &&
             load("nvmlDeviceGetTemperature", &temperature) && load("nvmlDeviceGetPowerUsage", &power) &&
             load("nvmlSystemGetDriverVersion", &driver_version) && start() == 0;
  }
  [[nodiscard]] bool ready() const { return ready_; }

  int (*by_bus)(const char* bus, void** device) = nullptr;
  int (*clock)(void* device, int kind, unsigned* mhz) = nullptr;
  int (*max_clock)(void* device, int kind, unsigned* mhz) = nullptr;
  int (*temperature)(void* device, int sensor, unsigned* celsius) = nullptr;
  int (*power)(void* device, unsigned* milliwatts) = nullptr;
  int (*driver_version)(char* text, unsigned length) = nullptr;

 private:
  template <class F>
  bool load(const char* name, F* function) {
    *function = library_ == nullptr ? nullptr : reinterpret_cast<F>(dlsym(library_, name));
    return *function != nullptr;
  }
  void* library_;
  bool ready_ = false;
};

constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;

void ask_nvml(int gpu, GpuState* state) {
  static const Nvml nvml;  // never shut down: other parts of the process may be using it too
  if (!nvml.ready()) return;
  char text[96] = "";
  if (nvml.driver_version(text, sizeof text) == 0) state->driver = text;
  void* device = nullptr;
  char bus[32] = "";
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) != cudaSuccess || nvml.by_bus(bus, &device) != 0) return;
  unsigned value = 0;
  if (nvml.clock(device, kSmClock, &value) == 0) state->sm_mhz = static_cast<int>(value);
  if (nvml.clock(device, kMemoryClock, &value) == 0) state->memory_mhz = static_cast<int>(value);
  if (nvml.max_clock(device, kSmClock, &value) == 0) state->max_sm_mhz = static_cast<int>(value);
  if (nvml.temperature(device, 0, &value) == 0) state->temperature_c = static_cast<int>(value);
  if (nvml.power(device, &value) == 0) state->power_w = static_cast<double>(value) / 1000;
}

}  // namespace

GpuState gpu_state(int gpu) {
  GpuState state;
  int driver = 0, khz = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) state.cuda_driver = version(driver);
  state.cuda_runtime = version(CUDART_VERSION);
  if (cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu) == cudaSuccess) state.max_sm_mhz = khz / 1000;
  ask_nvml(gpu, &state);
  return state;
}

}  // namespace tessera::gpu
