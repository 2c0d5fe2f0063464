// GPUs, launches and what the compiler made of a kernel; see runtime.hpp. cudart is linked statically and
// loads the driver when it is first asked, so that one binary runs on machines without either.
#include "cuda/runtime/runtime.hpp"

#include <algorithm>
#include <utility>

#include "cuda/runtime/cuda_call.hpp"
#include "cuda/runtime/remembered.hpp"
#include "cuda/runtime/sentences.hpp"

namespace tessera::cuda::runtime {
namespace {

struct Found {
  std::vector<Gpu> gpus;
  std::vector<std::size_t> window_bytes;  // the largest access-policy window of each
  std::string why_none;                   // empty if there is any
  bool pretended = false;
};

Gpu read_gpu(int index, const cudaDeviceProp& p) {
  Gpu gpu;
  gpu.index = index;
  gpu.name = p.name;
  gpu.arch = 10 * p.major + p.minor;
  gpu.sms = p.multiProcessorCount;
  gpu.shared_block_bytes = static_cast<int>(p.sharedMemPerBlockOptin);
  gpu.shared_sm_bytes = static_cast<int>(p.sharedMemPerMultiprocessor);
  gpu.l2_bytes = p.l2CacheSize;
  gpu.l2_persisting_bytes = p.persistingL2CacheMaxSize;
  gpu.memory_bytes = static_cast<std::int64_t>(p.totalGlobalMem);
  return gpu;
}

Found look() {
  Found found;
  int count = 0, driver = 0;
  cudaError_t error = cudaDriverGetVersion(&driver);
  if (error == cudaSuccess) error = cudaGetDeviceCount(&count);
  for (int n = 0; error == cudaSuccess && n < count; ++n) {
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, n);
    if (error != cudaSuccess) break;
    found.gpus.push_back(read_gpu(n, properties));
    found.window_bytes.push_back(static_cast<std::size_t>(properties.accessPolicyMaxWindowSize));
  }
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    found.gpus.clear();
    found.why_none = why_no_gpu(describe(error), driver, CUDART_VERSION);
  }
  return found;
}

Found& found() {
  static Found once = look();
  return once;
}

// The GPU's L2 has a part for persisting accesses only once somebody asks for it. The setting is the whole
// process's, so it is made only where a kernel was chosen that is about just this.
void set_aside_l2(const Gpu& gpu) {
  static std::atomic<std::uint64_t> done{0};
  const std::uint64_t bit = std::uint64_t{1} << (gpu.index % 64);
  if ((done.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) return;
  const auto bytes = static_cast<std::size_t>(gpu.l2_persisting_bytes);
  // Without it the window is a hint that has no effect: not worth failing for.
  if (cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, bytes) != cudaSuccess) (void)cudaGetLastError();
}

cudaLaunchAttribute window_attribute(const Launch& launch, int index) {
  const Gpu& gpu = found().gpus[static_cast<std::size_t>(index)];
  const std::size_t most = found().window_bytes[static_cast<std::size_t>(index)];
  set_aside_l2(gpu);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  cudaAccessPolicyWindow& window = attribute.val.accessPolicyWindow;
  window.base_ptr = const_cast<void*>(launch.l2_window);
  window.num_bytes = std::min(launch.l2_window_bytes, most);
  // More than fits would throw itself out again: then only a share of the accesses persists.
  window.hitRatio = std::min(1.0f, static_cast<float>(gpu.l2_persisting_bytes) /
                                       static_cast<float>(std::max<std::size_t>(window.num_bytes, 1)));
  window.hitProp = cudaAccessPropertyPersisting;
  window.missProp = cudaAccessPropertyStreaming;
  return attribute;
}

// Dynamic shared memory past 48 KB has to be asked for, once per function and GPU.
cudaError_t allow_shared(const void* function, int gpu, unsigned bytes, std::atomic<int>** remembered) {
  static Remembered allowed;
  std::atomic<int>* most = allowed.of(function, gpu);
  *remembered = most;
  if (most != nullptr && most->load(std::memory_order_relaxed) >= static_cast<int>(bytes)) return cudaSuccess;
  const cudaError_t error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error == cudaSuccess && most != nullptr)
    most->store(static_cast<int>(bytes), std::memory_order_relaxed);
  return error;
}

cudaError_t try_launch(const Launch& launch, void* params, const tessera_device& device) {
  const CurrentGpu current(device.index);
  if (current.error() != cudaSuccess) return current.error();
  std::atomic<int>* allowed = nullptr;
  if (launch.shared_bytes > 0) {
    const cudaError_t error = allow_shared(launch.function, device.index, launch.shared_bytes, &allowed);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.attrs = attributes;
  config.gridDim = dim3(launch.grid[0], launch.grid[1], launch.grid[2]);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = static_cast<cudaStream_t>(device.stream);
  if (launch.l2_window_bytes > 0) attributes[config.numAttrs++] = window_attribute(launch, device.index);
  if (launch.starts_early) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  void* arguments[] = {params};
  const cudaError_t error = cudaLaunchKernelExC(&config, launch.function, arguments);
  // After a reset of the device the limit is the default again, whatever is remembered.
  if (error != cudaSuccess && allowed != nullptr) allowed->store(Remembered::kUnknown);
  return error;
}

// Which of the fat binary's parts a GPU runs: its own arch, else code for sm_80 (as such or through PTX).
int arch_in_binary(int arch) { return arch == 89 || arch == 90 ? arch : 80; }

}  // namespace

bool in_build() { return true; }

const Gpu* find_gpu(int index, std::string* why) {
  const Found& all = found();
  std::string reason;
  if (!all.why_none.empty()) {
    reason = all.why_none;
  } else if (index < 0 || index >= static_cast<int>(all.gpus.size())) {
    reason = why_no_index(index, static_cast<int>(all.gpus.size()));
  } else {
    const Gpu& gpu = all.gpus[static_cast<std::size_t>(index)];
    if (gpu.arch >= kLeastArch) return &gpu;
    reason = why_too_old(index, gpu.name, gpu.arch);
  }
  if (why != nullptr) *why = std::move(reason);
  return nullptr;
}

void pretend_gpus(std::vector<Gpu> gpus) {
  Found& all = found();
  all = Found{std::move(gpus), {}, "", true};
  all.window_bytes.resize(all.gpus.size(), 0);
  for (std::size_t n = 0; n < all.gpus.size(); ++n) all.gpus[n].index = static_cast<int>(n);
  if (all.gpus.empty())
    all.why_none = why_no_gpu({100, "cudaErrorNoDevice", ""}, CUDART_VERSION, CUDART_VERSION);
}

core::Status launch(const Launch& launch, void* params, const tessera_device& device) {
  const cudaError_t error = try_launch(launch, params, device);
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // reported here; the caller's next check must not see it again
  return launch_failed(launch, describe(error));
}

core::Status inspect(const void* function, const tessera_device& device, unsigned threads,
                     unsigned shared_bytes, Function* out) {
  const CurrentGpu current(device.index);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  cudaFuncAttributes attributes{};
  if (core::Status s = checked(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes");
      !s.ok())
    return s;
  std::atomic<int>* allowed = nullptr;
  if (core::Status s = checked(allow_shared(function, device.index, shared_bytes, &allowed),
                               "cudaFuncSetAttribute for the shared memory");
      !s.ok())
    return s;
  out->registers = attributes.numRegs;
  out->local_bytes = static_cast<int>(attributes.localSizeBytes);
  out->shared_static_bytes = static_cast<int>(attributes.sharedSizeBytes);
  out->code_arch = attributes.ptxVersion;
  return checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&out->blocks_per_sm, function,
                                                               static_cast<int>(threads), shared_bytes),
                 "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
}

int code_arch(const void* function, int device_index) {
  static Remembered known;
  if (found().pretended) {
    const Gpu* gpu = find_gpu(device_index, nullptr);
    return gpu == nullptr ? 0 : arch_in_binary(gpu->arch);
  }
  std::atomic<int>* slot = known.of(function, device_index);
  if (slot != nullptr && slot->load(std::memory_order_relaxed) != Remembered::kUnknown)
    return slot->load(std::memory_order_relaxed);
  const CurrentGpu current(device_index);
  cudaFuncAttributes attributes{};
  if (current.error() != cudaSuccess || cudaFuncGetAttributes(&attributes, function) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  if (slot != nullptr) slot->store(attributes.ptxVersion, std::memory_order_relaxed);
  return attributes.ptxVersion;
}

}  // namespace tessera::cuda::runtime
