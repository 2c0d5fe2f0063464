// See sentences.hpp. The numbers are cudaError_t's, which never change their meaning.
#include "cuda/runtime/sentences.hpp"

#include <fmt/format.h>

namespace tessera::cuda::runtime {
namespace {

constexpr int kMemoryAllocation = 2;
constexpr int kInitializationError = 3;
constexpr int kStubLibrary = 34;
constexpr int kInsufficientDriver = 35;
constexpr int kDevicesUnavailable = 46;
constexpr int kNoDevice = 100;
constexpr int kNoKernelImage = 209;
constexpr int kUnsupportedPtx = 222;
constexpr int kInvalidHandle = 400;
constexpr int kSystemNotReady = 802;
constexpr int kSystemDriverMismatch = 803;
constexpr int kCompatNotSupported = 804;

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

}  // namespace

std::string why_no_gpu(const CudaError& error, int driver_version, int runtime_version) {
  switch (error.code) {
    case kInsufficientDriver:
      // The runtime says so both for an old driver and for none at all.
      if (driver_version == 0) return "no NVIDIA driver is installed here (libcuda.so.1 was not found)";
      return fmt::format("the NVIDIA driver is too old: it knows CUDA {}, and this build needs {} or newer",
                         version(driver_version), version(runtime_version));
    case kStubLibrary:
      return "the libcuda.so.1 found first is the stub library for linking, not an NVIDIA driver";
    case kNoDevice:
      return "the NVIDIA driver finds no GPU (or CUDA_VISIBLE_DEVICES hides it)";
    case kInitializationError:
      return "CUDA could not start in this process; it cannot be used after fork() where the parent used it";
    case kDevicesUnavailable:
      return "every GPU is busy or in exclusive use by another process";
    case kSystemDriverMismatch:
      return "the NVIDIA driver's library and its kernel module have different versions; restart the machine";
    case kSystemNotReady:
      return "the GPUs are not ready yet (is the fabric manager running?)";
    case kCompatNotSupported:
      return "the CUDA compatibility library does not support this GPU";
    default:
      return fmt::format("CUDA could not start: {} ({})", error.text, error.name);
  }
}

std::string why_no_index(int index, int count) {
  return count == 1 ? fmt::format("there is no GPU {}: this machine has one, number 0", index)
                    : fmt::format("there is no GPU {}: this machine has {}, numbers 0 to {}", index, count,
                                  count - 1);
}

std::string why_too_old(int index, std::string_view name, int arch) {
  return fmt::format("GPU {} ({}) is sm_{}; sm_{} or newer is needed", index, name, arch, kLeastArch);
}

tessera_status status_code(int cuda_error) {
  switch (cuda_error) {
    case kMemoryAllocation:
      return TESSERA_OUT_OF_MEMORY;
    case kInvalidHandle:
      return TESSERA_INVALID_ARGUMENT;
    case kInitializationError:
    case kStubLibrary:
    case kInsufficientDriver:
    case kDevicesUnavailable:
    case kNoDevice:
    case kNoKernelImage:
    case kUnsupportedPtx:
    case kSystemNotReady:
    case kSystemDriverMismatch:
    case kCompatNotSupported:
      return TESSERA_DEVICE_UNAVAILABLE;
    default:
      return TESSERA_INTERNAL;
  }
}

core::Status call_failed(std::string_view what, const CudaError& error) {
  return {status_code(error.code), fmt::format("{} failed: {} ({})", what, error.text, error.name)};
}

core::Status launch_failed(const Step& step, const CudaError& error) {
  core::Status status{status_code(error.code),
                      fmt::format("kernel {} was not launched (grid {} x {} x {}, {} threads, {} bytes of "
                                  "shared memory): {} ({})",
                                  step.kernel, step.grid[0], step.grid[1], step.grid[2], step.threads,
                                  step.shared_bytes, error.text, error.name)};
  if (error.code == kInvalidHandle) status.message += "; device.stream must be a stream of this process";
  return status;
}

core::Status check_memory_kind(std::string_view tensor, MemoryKind kind, int owner, int wanted) {
  if (kind == MemoryKind::host) {
    return core::invalid(fmt::format(
        "{} is host memory, but device.kind is 2 (cuda); memory of GPU {} is accepted, and pinned or "
        "managed memory",
        tensor, wanted));
  }
  if (kind == MemoryKind::gpu && owner != wanted) {
    return core::invalid(
        fmt::format("{} is memory of GPU {}, but device.index is {}", tensor, owner, wanted));
  }
  return {};
}

core::Status check_stream_device(int owner, int wanted) {
  if (owner == wanted) return {};
  return core::invalid(
      fmt::format("device.stream is a stream of GPU {}, but device.index is {}", owner, wanted));
}

}  // namespace tessera::cuda::runtime
