// The runtime over CUDA itself. cudart is linked statically and loads the driver when it is first asked, so
// that one binary runs on machines without either. runtime.cpp has GPUs and launches, reach.cpp whose memory
// is whose, tensor_map.cpp the tensor maps, memory.cpp memory for a call.
#pragma once

#include "cuda/runtime/cuda_call.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cuda::runtime {

class CudaRuntime final : public Runtime {
 public:
  const Gpu* find_gpu(int index, std::string* why) const override;
  core::Status check_memory(std::span<const Named> all, const tessera_device& device) const override;
  core::Status make_ready(const Step& step, int gpu) const override;
  core::Status launch(const Step& step, const core::Addresses& at, void* workspace,
                      const tessera_device& device) const override;
  core::Status allocate(std::int64_t bytes, const tessera_device& device, void** out) const override;
  core::Status release(void* memory, const tessera_device& device) const override;
  core::Status inspect(const void* function, int gpu, unsigned threads, unsigned shared_bytes,
                       Function* out) const override;
  core::Status code_arch(const void* function, int gpu, int* out) const override;
  core::Status encode(const BoxedTensor& tensor, int gpu, TensorMap* map) const override;
  core::Status move_map(TensorMap* map, void* data) const override;
};

}  // namespace tessera::cuda::runtime
