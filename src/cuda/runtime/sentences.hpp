// What the CUDA runtime's answers mean, in sentences. Plain functions of numbers, so that every one of
// them is tested on machines without a driver or a GPU.
#pragma once

#include <string>
#include <string_view>

#include "core/status.hpp"
#include "cuda/runtime/step.hpp"

namespace tessera::cuda::runtime {

inline constexpr int kLeastArch = 80;

// An error of the CUDA runtime, as cudaGetErrorName and cudaGetErrorString put it.
struct CudaError {
  int code = 0;
  std::string_view name;  // "cudaErrorNoDevice"
  std::string_view text;  // "no CUDA-capable device is detected"
};

// Why no GPU can be used at all. Versions as CUDA counts them: 13000 is 13.0, driver 0 is none.
std::string why_no_gpu(const CudaError& error, int driver_version, int runtime_version);
std::string why_no_index(int index, int count);
std::string why_too_old(int index, std::string_view name, int arch);

// The kind of status an error of any call is.
tessera_status status_code(int cuda_error);
core::Status call_failed(std::string_view what, const CudaError& error);
// With the kernel and its geometry, which is what one needs to know to find out why.
core::Status launch_failed(const Step& step, const CudaError& error);

// Where a tensor's memory lies.
enum class MemoryKind { host, pinned_host, managed, gpu };
// OK if the GPU `wanted` may use it; `owner` is the GPU that the memory belongs to.
core::Status check_memory_kind(std::string_view tensor, MemoryKind kind, int owner, int wanted);
core::Status check_stream_device(int owner, int wanted);

}  // namespace tessera::cuda::runtime
