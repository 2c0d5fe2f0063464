// What nvcc's stubs call before main() begins: which kernel belongs to which address. The code in the fat
// binary is of no use here.
#include <cuda_runtime_api.h>

#include <vector>

#include "emulator/runtime/complain.hpp"
#include "emulator/runtime/kernels.hpp"

namespace {

struct CallConfiguration {
  dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
};
thread_local std::vector<CallConfiguration> configurations;

}  // namespace

// nvcc's names, which no header has for programs.
extern "C" {

void** __cudaRegisterFatBinary(void* fat_binary) {
  return static_cast<void**>(fat_binary);  // any handle would do
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* stub, char*, const char* entry, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  emulator::runtime::register_function(stub, entry);
}

// Variables of kernels would need a place in the PTX's memory: no kernel has one.
void __cudaRegisterVar(void**, char*, char*, const char* name, int, std::size_t, int, int) {
  emulator::runtime::complain("the device variable " + std::string(name) +
                              " is not emulated: the host cannot read or write it");
}

// kernel<<<grid, block, shared, stream>>>(...) is a push here and a pop in the stub.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, void* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const CallConfiguration& last = configurations.back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<void**>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}

// The address of the stub is as good a handle as any.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared_bytes,
                          stream);
}

}  // extern "C"
