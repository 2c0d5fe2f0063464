// From what a program launches (the address of a stub that nvcc made, or a handle) to an entry point of PTX.
// A file of PTX is read when the first of its entry points is needed.
#pragma once

#include <driver_types.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "emulator/exec/launch.hpp"
#include "emulator/runtime/ptx_index.hpp"

namespace emulator::runtime {

// nvcc's stubs say which name belongs to which address, before main() begins. They are never taken back.
void register_function(const void* stub, const char* entry);

struct Kernel {
  std::string entry;
  bool of_library = false;  // its PTX was given to cudaLibraryLoadData
  // Settled when it is first needed.
  bool ready = false;
  EntryInfo info;
  Entry indexed;
  std::size_t dynamic_shared_limit = 0;
};

class Kernels {
 public:
  Kernels(Executor& executor, int gpu_arch, std::size_t shared_bytes, std::string index_file)
      : executor_(executor),
        gpu_arch_(gpu_arch),
        shared_bytes_(shared_bytes),
        index_file_(std::move(index_file)) {}

  // The kernel behind an address or a handle, with its PTX read.
  cudaError_t find(const void* function, Kernel** out);

  cudaError_t load_library(const char* ptx, cudaLibrary_t* out);
  cudaError_t unload_library(cudaLibrary_t library);
  cudaError_t kernel_of_library(cudaLibrary_t library, const char* entry, cudaKernel_t* out);

 private:
  cudaError_t make_ready(Kernel* kernel);
  cudaError_t load(const std::string& ptx, const std::string& name);
  cudaError_t load_file(const Module& module);
  bool read_index();

  Executor& executor_;
  int gpu_arch_;
  std::size_t shared_bytes_;
  std::string index_file_;
  bool index_tried_ = false, index_read_ = false;
  PtxIndex index_;
  std::set<std::string> loaded_;                              // files, and PTX of libraries by its text
  std::map<cudaLibrary_t, std::unique_ptr<char>> libraries_;  // an address of its own for each
  std::map<const void*, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace emulator::runtime
