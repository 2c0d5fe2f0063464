// cudart: what GPU there is. Everything is answered from its description; what that does not have is an error
// that names it.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "emulator/runtime/machine.hpp"

using emulator::DeviceDescription;
using emulator::runtime::Gpu;
using emulator::runtime::Machine;
using emulator::runtime::not_emulated;
using emulator::runtime::on_description;
using emulator::runtime::on_machine;
using emulator::runtime::outside_captures;

namespace {

constexpr int kMostThreads = 1024;

cudaError_t checked(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }

void describe(const Gpu& gpu, cudaDeviceProp* p) {
  const DeviceDescription& d = gpu.description;
  *p = {};
  std::strncpy(p->name, d.name.c_str(), sizeof p->name - 1);
  p->major = d.arch / 10;
  p->minor = d.arch % 10;
  p->multiProcessorCount = d.multiprocessors;
  p->totalGlobalMem = d.global_bytes;
  p->sharedMemPerBlock = d.shared_bytes_per_block;
  p->sharedMemPerBlockOptin = d.shared_bytes_per_block_optin;
  p->sharedMemPerMultiprocessor = d.shared_bytes_per_multiprocessor;
  p->reservedSharedMemPerBlock = d.shared_bytes_per_multiprocessor - d.shared_bytes_per_block_optin;
  p->regsPerBlock = p->regsPerMultiprocessor = gpu.registers_per_multiprocessor;
  p->maxThreadsPerMultiProcessor = gpu.threads_per_multiprocessor;
  p->maxBlocksPerMultiProcessor = gpu.blocks_per_multiprocessor;
  p->warpSize = 32;
  p->maxThreadsPerBlock = kMostThreads;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = kMostThreads;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->l2CacheSize = static_cast<int>(d.l2_bytes);
  p->persistingL2CacheMaxSize = static_cast<int>(d.persisting_l2_bytes);
  p->accessPolicyMaxWindowSize = static_cast<int>(gpu.l2_window_bytes);
  p->memoryBusWidth = gpu.memory_bus_bits;
  p->asyncEngineCount = 1;
  p->unifiedAddressing = p->concurrentKernels = p->memoryPoolsSupported = 1;
}

bool attribute_of(const Gpu& gpu, cudaDeviceAttr attribute, int* out) {
  const DeviceDescription& d = gpu.description;
  const auto is = [out](std::size_t value) {
    *out = static_cast<int>(value);
    return true;
  };
  switch (attribute) {
    case cudaDevAttrClockRate:
      return is(static_cast<std::size_t>(gpu.clock_khz));
    case cudaDevAttrMemoryClockRate:
      return is(static_cast<std::size_t>(gpu.memory_clock_khz));
    case cudaDevAttrGlobalMemoryBusWidth:
      return is(static_cast<std::size_t>(gpu.memory_bus_bits));
    case cudaDevAttrMultiProcessorCount:
      return is(static_cast<std::size_t>(d.multiprocessors));
    case cudaDevAttrComputeCapabilityMajor:
      return is(static_cast<std::size_t>(d.arch / 10));
    case cudaDevAttrComputeCapabilityMinor:
      return is(static_cast<std::size_t>(d.arch % 10));
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return is(d.shared_bytes_per_block);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return is(d.shared_bytes_per_block_optin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return is(d.shared_bytes_per_multiprocessor);
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return is(static_cast<std::size_t>(gpu.registers_per_multiprocessor));
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return is(static_cast<std::size_t>(gpu.threads_per_multiprocessor));
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return is(static_cast<std::size_t>(gpu.blocks_per_multiprocessor));
    case cudaDevAttrMaxThreadsPerBlock:
      return is(kMostThreads);
    case cudaDevAttrWarpSize:
      return is(32);
    case cudaDevAttrL2CacheSize:
      return is(d.l2_bytes);
    case cudaDevAttrMaxPersistingL2CacheSize:
      return is(d.persisting_l2_bytes);
    case cudaDevAttrMaxAccessPolicyWindowSize:
      return is(gpu.l2_window_bytes);
    case cudaDevAttrMemoryPoolsSupported:
      return is(1);
    default:
      return false;
  }
}

}  // namespace

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return on_description([&](const Gpu&) {
    *count = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return on_description([&](const Gpu&) {
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return on_machine([&](Machine&) { return checked(device); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return on_description([&](const Gpu& gpu) {
    if (device == 0) describe(gpu, properties);
    return checked(device);
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return on_description([&](const Gpu& gpu) {
    if (device != 0) return cudaErrorInvalidDevice;
    if (attribute_of(gpu, attribute, value)) return cudaSuccess;
    return not_emulated("attribute " + std::to_string(static_cast<int>(attribute)) +
                        " of cudaDeviceGetAttribute");
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  return on_description([&](const Gpu&) {
    constexpr char kNowhere[] = "FFFF:FF:1F.0";  // of no GPU that NVML could know
    if (device != 0) return cudaErrorInvalidDevice;
    if (length < static_cast<int>(sizeof kNowhere)) return cudaErrorInvalidValue;
    std::memcpy(id, kNowhere, sizeof kNowhere);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return on_machine([&](Machine& m) {
    if (limit != cudaLimitPersistingL2CacheSize)
      return not_emulated("limit " + std::to_string(static_cast<int>(limit)) + " of cudaDeviceSetLimit");
    return value <= m.environment.gpu.description.persisting_l2_bytes ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return outside_captures([](Machine& m) {
    m.streams.finish_all();
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceReset() {
  emulator::runtime::reset_machine();
  return cudaSuccess;
}
