// The emulated GPU of this process: memory, kernels, streams, and whether a kernel has broken it.
#pragma once

#include <driver_types.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "emulator/exec/launch.hpp"
#include "emulator/runtime/device_memory.hpp"
#include "emulator/runtime/gpus.hpp"
#include "emulator/runtime/kernels.hpp"
#include "emulator/runtime/streams.hpp"

namespace emulator::runtime {

// A launch as the program asks for it.
struct LaunchRequest {
  dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  bool overlaps_previous = false;
  cudaStream_t stream = nullptr;
};

class Machine {
 public:
  explicit Machine(Environment environment);

  const Environment environment;
  const std::unique_ptr<Executor> executor;
  DeviceMemory memory;
  Kernels kernels;
  Streams streams;
  std::map<cudaMemPool_t, std::unique_ptr<char>> pools;  // an address of its own for each

  // cudaSuccess, or why everything fails from now on.
  [[nodiscard]] cudaError_t failed() const { return failed_; }

  // Checks it and puts it into its stream.
  cudaError_t launch(const void* function, const LaunchRequest& request, void** arguments);

  // Copies between the host and this GPU, or within it, at once.
  bool can_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const;
  cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);

 private:
  cudaError_t check_launch(const Kernel& kernel, const LaunchRequest& request) const;
  std::shared_ptr<Started> start(const Launch& launch);
  void execute(const Launch& launch, Started* started, const std::string& coverage_line);
  void cover(const std::string& line);

  cudaError_t failed_ = cudaSuccess;
  std::set<std::string> covered_;
};

// Every function of CUDA's that works on the GPU goes through here, one at a time. Not called if there is no
// GPU or it is broken; the result is remembered for cudaGetLastError.
cudaError_t on_machine(const std::function<cudaError_t(Machine&)>& call);
// The same for calls that a capture in this thread does not allow, which breaks it.
cudaError_t outside_captures(const std::function<cudaError_t(Machine&)>& call);
// The same for those that only ask what GPU there is.
cudaError_t on_description(const std::function<cudaError_t(const Gpu&)>& call);

// Remembers an error for cudaGetLastError and returns it.
cudaError_t remember(cudaError_t error);
// The same with a sentence, for what the emulator does not have: it must never pass for an answer.
cudaError_t not_emulated(const std::string& what);

// The error of this thread's last call that failed. Taking it clears it, but for a broken GPU's.
cudaError_t last_error(bool take);

// Whether this thread has a context, as the driver has it: by a call that needed one.
bool thread_has_context();
// Forgets the machine; the next call makes a new one from the environment as it then is.
void reset_machine();

}  // namespace emulator::runtime
