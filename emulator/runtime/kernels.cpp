#include "emulator/runtime/kernels.hpp"

#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "emulator/runtime/complain.hpp"

namespace emulator::runtime {
namespace {

struct Registered {
  std::mutex mutex;
  std::map<const void*, std::string> entries;
};

// Never destroyed: stubs register themselves before anything of this file, and leave after it.
Registered& registered() {
  static Registered* const all = new Registered;
  return *all;
}

}  // namespace

void register_function(const void* stub, const char* entry) {
  const std::lock_guard lock(registered().mutex);
  registered().entries[stub] = entry;
}

cudaError_t Kernels::find(const void* function, Kernel** out) {
  const auto found = kernels_.find(function);
  if (found != kernels_.end()) {
    *out = found->second.get();
    return make_ready(*out);
  }
  const std::lock_guard lock(registered().mutex);
  const auto stub = registered().entries.find(function);
  if (stub == registered().entries.end()) return cudaErrorInvalidDeviceFunction;
  auto& kernel = kernels_[function] = std::make_unique<Kernel>();
  kernel->entry = stub->second;
  *out = kernel.get();
  return make_ready(*out);
}

cudaError_t Kernels::make_ready(Kernel* kernel) {
  if (kernel->ready) return cudaSuccess;
  if (!kernel->of_library) {
    if (!read_index()) return cudaErrorInvalidKernelImage;
    kernel->indexed = index_.find(kernel->entry, gpu_arch_);
    if (kernel->indexed.module == nullptr) {
      complain("no PTX of " + index_file_ + " that runs on sm_" + std::to_string(gpu_arch_) +
               " has the entry point " + kernel->entry);
      return cudaErrorNoKernelImageForDevice;
    }
    if (const cudaError_t error = load_file(*kernel->indexed.module); error != cudaSuccess) return error;
  }
  const EntryInfo* const info = executor_.find(kernel->entry);
  if (info == nullptr) return cudaErrorInvalidKernelImage;
  kernel->info = *info;
  kernel->dynamic_shared_limit =
      shared_bytes_ < info->static_shared_bytes ? 0 : shared_bytes_ - info->static_shared_bytes;
  kernel->ready = true;
  return cudaSuccess;
}

bool Kernels::read_index() {
  if (index_tried_) return index_read_;
  index_tried_ = true;
  std::string why;
  index_read_ = index_.read(index_file_, &why);
  if (!index_read_) complain(why);
  return index_read_;
}

cudaError_t Kernels::load_file(const Module& module) {
  if (loaded_.count(module.file) != 0) return cudaSuccess;
  std::ifstream in(module.file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    complain("cannot read " + module.file + ", which " + index_file_ + " names: build again");
    return cudaErrorFileNotFound;
  }
  const cudaError_t error = load(text.str(), module.file);
  if (error == cudaSuccess) loaded_.insert(module.file);
  return error;
}

cudaError_t Kernels::load(const std::string& ptx, const std::string& name) {
  try {
    executor_.load(ptx, name);
    return cudaSuccess;
  } catch (const std::exception& problem) {
    complain(problem.what());
    return cudaErrorInvalidPtx;
  }
}

cudaError_t Kernels::load_library(const char* ptx, cudaLibrary_t* out) {
  const std::string text = ptx;
  if (text.find(".version") == std::string::npos) {
    complain("cudaLibraryLoadData: only PTX as text can be loaded here");
    return cudaErrorNotSupported;
  }
  if (loaded_.count(text) == 0) {
    if (const cudaError_t error = load(text, "PTX given to cudaLibraryLoadData"); error != cudaSuccess)
      return error;
    loaded_.insert(text);
  }
  auto handle = std::make_unique<char>();
  *out = reinterpret_cast<cudaLibrary_t>(handle.get());
  libraries_[*out] = std::move(handle);
  return cudaSuccess;
}

// What was loaded stays, as its kernels' handles do: no program can tell, but from an address that it must
// not use any more.
cudaError_t Kernels::unload_library(cudaLibrary_t library) {
  return libraries_.erase(library) == 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

cudaError_t Kernels::kernel_of_library(cudaLibrary_t library, const char* entry, cudaKernel_t* out) {
  if (libraries_.count(library) == 0) return cudaErrorInvalidResourceHandle;
  if (executor_.find(entry) == nullptr) return cudaErrorSymbolNotFound;
  auto kernel = std::make_unique<Kernel>();
  kernel->entry = entry;
  kernel->of_library = true;
  *out = reinterpret_cast<cudaKernel_t>(kernel.get());
  kernels_[kernel.get()] = std::move(kernel);
  return cudaSuccess;
}

}  // namespace emulator::runtime
