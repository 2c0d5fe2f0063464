// The one thin seam to CUDA: which GPUs there are, what memory is theirs, and launching a kernel. Nothing
// else in the library calls the CUDA runtime. What is behind it: CUDA (runtime.cpp), nothing (absent.cpp, a
// build without nvcc), or whatever a test puts in its place.
#pragma once

#include <tessera/tessera.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/kernel.hpp"
#include "core/status.hpp"
#include "cuda/runtime/step.hpp"
#include "cuda/runtime/tensor_map.hpp"

namespace tessera::cuda::runtime {

struct Gpu : core::Hardware {
  int index = 0;
  std::string name;  // "NVIDIA H200"
  int arch = 0;      // 10 * major + minor: 80, 89, 90
  int sms = 0;
  int shared_block_bytes = 0;  // most shared memory a block may ask for
  int shared_sm_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t l2_persisting_bytes = 0;  // most that may be set aside for persisting accesses
  std::int64_t l2_window_bytes = 0;      // the largest window of an access policy
  std::int64_t memory_bytes = 0;
};

// What the compiler and the GPU made of a kernel.
struct Function {
  int registers = 0;
  int local_bytes = 0;
  int shared_static_bytes = 0;
  int code_arch = 0;      // the virtual arch its code was compiled from: 80, 89 or 90
  int blocks_per_sm = 0;  // with these threads and this much dynamic shared memory
};

// A piece of a call's memory, as users name it; null: left out.
struct Named {
  std::string_view name;
  const void* data = nullptr;
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  [[nodiscard]] virtual bool in_build() const { return true; }  // false: this build has no CUDA part
  // The GPU, or null and a sentence in *why (which may be null): no driver, a driver too old, no such index,
  // below sm_80. Asked once per process and remembered; cheap afterwards.
  virtual const Gpu* find_gpu(int index, std::string* why) const = 0;

  // The stream, every one of these and the workspace belong to this GPU or can be used by it.
  [[nodiscard]] virtual core::Status check_memory(std::span<const Named> all,
                                                  const tessera_device& device) const = 0;

  // Once for a step, before the first launch.
  [[nodiscard]] virtual core::Status make_ready(const Step& step, int gpu) const = 0;
  [[nodiscard]] virtual core::Status launch(const Step& step, const core::Addresses& at, void* workspace,
                                            const tessera_device& device) const = 0;
  // Memory for what comes next on the stream, and its end there.
  [[nodiscard]] virtual core::Status allocate(std::int64_t bytes, const tessera_device& device,
                                              void** out) const = 0;
  [[nodiscard]] virtual core::Status release(void* memory, const tessera_device& device) const = 0;
  virtual core::Status inspect(const void* function, int gpu, unsigned threads, unsigned shared_bytes,
                               Function* out) const = 0;
  // Function::code_arch alone, which is the same for all functions of a build: cheap when asked again.
  virtual core::Status code_arch(const void* function, int gpu, int* out) const = 0;
  virtual core::Status encode(const BoxedTensor& tensor, int gpu, TensorMap* map) const = 0;
  // The same map for a tensor elsewhere.
  virtual core::Status move_map(TensorMap* map, void* data) const = 0;
};

const Runtime& build_runtime();  // this build's own
// In use now: this build's own, unless a test has put another in its place.
const Runtime& current();
void stand_in(const Runtime* other);  // for tests; null puts this build's own back

inline bool in_build() { return current().in_build(); }
inline const Gpu* find_gpu(int index, std::string* why) { return current().find_gpu(index, why); }

}  // namespace tessera::cuda::runtime
