// cudart: launches, and what a kernel takes.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "emulator/runtime/complain.hpp"
#include "emulator/runtime/machine.hpp"

using emulator::runtime::Code;
using emulator::runtime::Gpu;
using emulator::runtime::Kernel;
using emulator::runtime::LaunchRequest;
using emulator::runtime::Machine;
using emulator::runtime::not_emulated;
using emulator::runtime::on_machine;

namespace {

// Hints are checked and have no effect.
cudaError_t check_window(const cudaAccessPolicyWindow& window, const Gpu& gpu) {
  const bool right = window.num_bytes <= gpu.l2_window_bytes && window.hitRatio >= 0 &&
                     window.hitRatio <= 1 && window.missProp != cudaAccessPropertyPersisting;
  return right ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t read_attribute(const cudaLaunchAttribute& attribute, const Gpu& gpu, LaunchRequest* out) {
  switch (attribute.id) {
    case cudaLaunchAttributeIgnore:
      return cudaSuccess;
    case cudaLaunchAttributeAccessPolicyWindow:
      return check_window(attribute.val.accessPolicyWindow, gpu);
    case cudaLaunchAttributeProgrammaticStreamSerialization:
      out->overlaps_previous = attribute.val.programmaticStreamSerializationAllowed != 0;
      return cudaSuccess;
    default:
      return not_emulated("launch attribute " + std::to_string(static_cast<int>(attribute.id)));
  }
}

cudaError_t code_of(const Kernel& kernel, const Code** out) {
  *out = kernel.indexed.code;
  if (*out != nullptr) return cudaSuccess;
  return not_emulated("asking what ptxas made of " + kernel.entry +
                      ", of which the index of PTX says nothing,");
}

constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

// CUDA programming guide: registers are given to a warp in pieces of 256, to a block by whole warps.
int blocks_per_sm(const Machine& m, const Kernel& kernel, const Code& code, int threads,
                  std::size_t dynamic_shared) {
  constexpr int kWarp = 32, kPiece = 256;
  constexpr std::size_t kSharedPiece = 128;
  const Gpu& gpu = m.environment.gpu;
  const auto& d = gpu.description;
  const int warps = divided_up(threads, kWarp);
  const int warp_registers = divided_up(code.registers * kWarp, kPiece) * kPiece;
  const std::size_t reserved = d.shared_bytes_per_multiprocessor - d.shared_bytes_per_block_optin;
  const std::size_t asked = kernel.info.static_shared_bytes + dynamic_shared + reserved;
  const std::size_t shared = (asked + kSharedPiece - 1) / kSharedPiece * kSharedPiece;
  // Four schedulers have a quarter of the registers each.
  const int warps_by_registers = 4 * (gpu.registers_per_multiprocessor / 4 / std::max(warp_registers, 1));
  return std::min({gpu.blocks_per_multiprocessor, gpu.threads_per_multiprocessor / (warps * kWarp),
                   warps_by_registers / warps, static_cast<int>(d.shared_bytes_per_multiprocessor / shared)});
}

}  // namespace

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return on_machine([&](Machine& m) {
    LaunchRequest request{config->gridDim, config->blockDim, config->dynamicSmemBytes, false, config->stream};
    for (unsigned n = 0; n < config->numAttrs; ++n)
      if (const cudaError_t error = read_attribute(config->attrs[n], m.environment.gpu, &request);
          error != cudaSuccess)
        return error;
    return m.launch(function, request, arguments);
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return on_machine([&](Machine& m) {
    return m.launch(function, {grid, block, shared_bytes, false, stream}, arguments);
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return on_machine([&](Machine& m) {
    Kernel* kernel = nullptr;
    if (const cudaError_t error = m.kernels.find(function, &kernel); error != cudaSuccess) return error;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;  // a hint
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
      return not_emulated("attribute " + std::to_string(static_cast<int>(attribute)) +
                          " of cudaFuncSetAttribute");
    const std::size_t most = m.environment.gpu.description.shared_bytes_per_block_optin;
    if (value < 0 || static_cast<std::size_t>(value) + kernel->info.static_shared_bytes > most)
      return cudaErrorInvalidValue;
    kernel->dynamic_shared_limit = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  return on_machine([&](Machine& m) {
    Kernel* kernel = nullptr;
    const Code* code = nullptr;
    if (const cudaError_t error = m.kernels.find(function, &kernel); error != cudaSuccess) return error;
    if (const cudaError_t error = code_of(*kernel, &code); error != cudaSuccess) return error;
    *out = {};
    out->numRegs = code->registers;
    out->localSizeBytes = static_cast<std::size_t>(code->stack_bytes);
    out->sharedSizeBytes = kernel->info.static_shared_bytes;
    out->maxThreadsPerBlock = kernel->info.max_threads;
    out->maxDynamicSharedSizeBytes = static_cast<int>(kernel->dynamic_shared_limit);
    out->ptxVersion = kernel->indexed.module->arch;
    out->binaryVersion = m.environment.gpu.description.arch;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, const void* function, int threads,
                                                          std::size_t dynamic_shared_bytes) {
  return on_machine([&](Machine& m) {
    Kernel* kernel = nullptr;
    const Code* code = nullptr;
    if (threads < 1) return cudaErrorInvalidValue;
    if (const cudaError_t error = m.kernels.find(function, &kernel); error != cudaSuccess) return error;
    if (const cudaError_t error = code_of(*kernel, &code); error != cudaSuccess) return error;
    *out = blocks_per_sm(m, *kernel, *code, threads, dynamic_shared_bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption*, void**,
                                unsigned jit_options, cudaLibraryOption*, void**, unsigned library_options) {
  return on_machine([&](Machine& m) {
    if (jit_options != 0 || library_options != 0) return not_emulated("an option of cudaLibraryLoadData");
    return m.kernels.load_library(static_cast<const char*>(code), out);
  });
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  return on_machine([&](Machine& m) { return m.kernels.kernel_of_library(library, name, out); });
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return on_machine([&](Machine& m) { return m.kernels.unload_library(library); });
}
