// GPUs, launches and what the compiler made of a kernel.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/runtime/cuda_runtime.hpp"
#include "cuda/runtime/sentences.hpp"

namespace tessera::cuda::runtime {
namespace {

struct Found {
  std::vector<Gpu> gpus;
  std::string why_none;  // empty if there is any
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
  gpu.l2_window_bytes = p.accessPolicyMaxWindowSize;
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
  }
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    found.gpus.clear();
    found.why_none = why_no_gpu(describe(error), driver, CUDART_VERSION);
  }
  return found;
}

const Found& found() {
  static const Found once = look();
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

cudaLaunchAttribute window_attribute(const Gpu& gpu, std::size_t bytes, void* from) {
  set_aside_l2(gpu);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeAccessPolicyWindow;
  cudaAccessPolicyWindow& window = attribute.val.accessPolicyWindow;
  window.base_ptr = from;
  window.num_bytes = std::min(bytes, static_cast<std::size_t>(gpu.l2_window_bytes));
  // More than fits would throw itself out again: then only a share of the accesses persists.
  window.hitRatio = std::min(1.0f, static_cast<float>(gpu.l2_persisting_bytes) /
                                       static_cast<float>(std::max<std::size_t>(window.num_bytes, 1)));
  window.hitProp = cudaAccessPropertyPersisting;
  window.missProp = cudaAccessPropertyStreaming;
  return attribute;
}

// What make_ready has asked for: asking CUDA again would take a quarter of a microsecond for every plan.
class Ready {
 public:
  bool has(const void* function, int gpu, unsigned shared_bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = shared_bytes_.find({function, gpu});
    return found != shared_bytes_.end() && found->second >= shared_bytes;
  }
  void add(const void* function, int gpu, unsigned shared_bytes) {
    const std::lock_guard lock(mutex_);
    shared_bytes_[{function, gpu}] = shared_bytes;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    shared_bytes_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const void*, int>, unsigned> shared_bytes_;
};

Ready& ready() {
  static Ready all;
  return all;
}

// Dynamic shared memory past 48 KB has to be asked for.
cudaError_t allow_shared(const void* function, unsigned bytes) {
  return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

cudaError_t try_launch(const Step& step, void* params, void* key, const tessera_device& device) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.attrs = attributes;
  config.gridDim = dim3(step.grid[0], step.grid[1], step.grid[2]);
  config.blockDim = dim3(step.threads);
  config.dynamicSmemBytes = step.shared_bytes;
  config.stream = static_cast<cudaStream_t>(device.stream);
  if (step.l2_window_bytes > 0) {
    const Gpu& gpu = found().gpus[static_cast<std::size_t>(device.index)];
    attributes[config.numAttrs++] = window_attribute(gpu, step.l2_window_bytes, key);
  }
  if (step.pdl) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  void* arguments[] = {params};
  return cudaLaunchKernelExC(&config, step.function, arguments);
}

}  // namespace

const Runtime& build_runtime() {
  static const CudaRuntime cuda;
  return cuda;
}

const Gpu* CudaRuntime::find_gpu(int index, std::string* why) const {
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

core::Status CudaRuntime::make_ready(const Step& step, int gpu) const {
  if (step.shared_bytes == 0 || ready().has(step.function, gpu, step.shared_bytes)) return {};
  const CurrentGpu current(gpu);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  core::Status status =
      checked(allow_shared(step.function, step.shared_bytes), "cudaFuncSetAttribute for the shared memory");
  if (status.ok()) ready().add(step.function, gpu, step.shared_bytes);
  return status;
}

core::Status CudaRuntime::launch(const Step& step, const core::Addresses& at, void* workspace,
                                 const tessera_device& device) const {
  const CurrentGpu current(device.index);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  alignas(64) std::byte params[Step::kMostParams];
  std::memcpy(params, step.params.data(), step.params_bytes);
  if (core::Status s = step.place(params, at, workspace); !s.ok()) return s;
  const cudaError_t error = try_launch(step, params, at[core::TensorId::key], device);
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // reported here; the caller's next check must not see it again
  ready().clear();           // after a reset of the device nothing holds that was asked for before
  return launch_failed(step, describe(error));
}

core::Status CudaRuntime::code_arch(const void* function, int gpu, int* out) const {
  static std::array<std::atomic<int>, 64> known{};
  std::atomic<int>* const mine =
      gpu < static_cast<int>(known.size()) ? &known[static_cast<std::size_t>(gpu)] : nullptr;
  *out = mine == nullptr ? 0 : mine->load(std::memory_order_relaxed);
  if (*out != 0) return {};
  const CurrentGpu current(gpu);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  cudaFuncAttributes attributes{};
  core::Status status = checked(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes");
  *out = attributes.ptxVersion;
  if (status.ok() && mine != nullptr) mine->store(*out, std::memory_order_relaxed);
  return status;
}

core::Status CudaRuntime::inspect(const void* function, int gpu, unsigned threads, unsigned shared_bytes,
                                  Function* out) const {
  const CurrentGpu current(gpu);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  cudaFuncAttributes attributes{};
  if (core::Status s = checked(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes");
      !s.ok())
    return s;
  if (core::Status s =
          checked(allow_shared(function, shared_bytes), "cudaFuncSetAttribute for the shared memory");
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

}  // namespace tessera::cuda::runtime
