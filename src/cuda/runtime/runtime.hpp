// The one thin seam to CUDA: which GPUs there are, what memory is theirs, and launching a kernel. Nothing
// else in the library calls the CUDA runtime. A build without nvcc has the same functions from absent.cpp:
// no GPU is ever found there.
#pragma once

#include <tessera/tessera.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/status.hpp"

namespace tessera::cuda::runtime {

struct Gpu {
  int index = 0;
  std::string name;  // "NVIDIA H200"
  int arch = 0;      // 10 * major + minor: 80, 89, 90
  int sms = 0;
  int shared_block_bytes = 0;  // most shared memory a block may ask for
  int shared_sm_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t l2_persisting_bytes = 0;  // most that may be set aside for persisting accesses
  std::int64_t memory_bytes = 0;
};

bool in_build();  // false: this build has no CUDA part

// The GPU, or null and a sentence in *why: no driver, a driver too old, no such index, below sm_80.
// Asked once per process and remembered; cheap afterwards.
const Gpu* find_gpu(int index, std::string* why);
// For tests of the selector: from now on these are the GPUs that find_gpu knows; nothing can be launched.
void pretend_gpus(std::vector<Gpu> gpus);

// Memory and stream of a problem belong to this GPU (or are reachable from it).
core::Status check_reachable(const core::Problem& problem, const tessera_device& device);
// For the CPU: none of the tensors is GPU memory. Costs nothing in a process that never loaded a driver.
core::Status check_on_host(const core::Problem& problem);

// One kernel launch; every kernel takes one struct by value.
struct Launch {
  const char* kernel = "";  // for the error message
  const void* function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned threads = 1;
  unsigned shared_bytes = 0;
  // The kernel waits by itself for those before it in the stream (ptx/pdl.hpp) and may be
  // started before they have ended.
  bool starts_early = false;
  // Rung 10: accesses to this window are kept in L2 if it can; 0 bytes = no window.
  const void* l2_window = nullptr;
  std::size_t l2_window_bytes = 0;
};

core::Status launch(const Launch& launch, void* params, const tessera_device& device);

// What the compiler and the GPU made of a kernel.
struct Function {
  int registers = 0;
  int local_bytes = 0;
  int shared_static_bytes = 0;
  int code_arch = 0;      // the virtual arch its code was compiled from: 80, 89 or 90
  int blocks_per_sm = 0;  // with these threads and this much dynamic shared memory
};
core::Status inspect(const void* function, const tessera_device& device, unsigned threads,
                     unsigned shared_bytes, Function* out);
// code_arch alone, remembered per function: what a launch needs to know to pick its tile sizes.
int code_arch(const void* function, int device_index);

}  // namespace tessera::cuda::runtime
