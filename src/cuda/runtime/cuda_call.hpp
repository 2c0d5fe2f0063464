// What the files that call CUDA share: errors as statuses, and the current device put back as it was.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "cuda/runtime/sentences.hpp"

namespace tessera::cuda::runtime {

inline CudaError describe(cudaError_t error) {
  return {static_cast<int>(error), cudaGetErrorName(error), cudaGetErrorString(error)};
}

// OK, or the failure; then CUDA's own record of it is cleared, because it has been reported.
inline core::Status checked(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  return call_failed(what, describe(error));
}

// Makes a GPU current and puts the caller's one back; nothing happens where it is current already.
class CurrentGpu {
 public:
  explicit CurrentGpu(int index) {
    error_ = cudaGetDevice(&before_);
    if (error_ != cudaSuccess || before_ == index) return;
    error_ = cudaSetDevice(index);
    changed_ = error_ == cudaSuccess;
  }
  ~CurrentGpu() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

  [[nodiscard]] cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace tessera::cuda::runtime
