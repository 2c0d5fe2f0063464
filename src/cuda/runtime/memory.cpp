// Memory that a plan needs and the caller gave none for: from a pool of the library's own, in the order of
// the stream, so that nobody waits. The pool keeps what it once got, up to the most that was in use at a
// time.
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "cuda/runtime/cuda_runtime.hpp"

namespace tessera::cuda::runtime {
namespace {

cudaError_t make_pool(int gpu, cudaMemPool_t* pool) {
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;
  wanted.location = {cudaMemLocationTypeDevice, gpu};
  if (const cudaError_t error = cudaMemPoolCreate(pool, &wanted); error != cudaSuccess) return error;
  std::uint64_t all = UINT64_MAX;
  return cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &all);
}

cudaError_t pool_of(int gpu, cudaMemPool_t* out) {
  static std::mutex mutex;
  static std::map<int, cudaMemPool_t> pools;
  const std::lock_guard lock(mutex);
  if (const auto found = pools.find(gpu); found != pools.end()) {
    *out = found->second;
    return cudaSuccess;
  }
  const cudaError_t error = make_pool(gpu, out);
  if (error == cudaSuccess) pools[gpu] = *out;
  return error;
}

}  // namespace

core::Status CudaRuntime::allocate(std::int64_t bytes, const tessera_device& device, void** out) const {
  const CurrentGpu current(device.index);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  cudaMemPool_t pool = nullptr;
  if (core::Status s = checked(pool_of(device.index, &pool), "cudaMemPoolCreate"); !s.ok()) return s;
  return checked(cudaMallocFromPoolAsync(out, static_cast<std::size_t>(bytes), pool,
                                         static_cast<cudaStream_t>(device.stream)),
                 fmt::format("cudaMallocFromPoolAsync for a workspace of {} bytes", bytes));
}

core::Status CudaRuntime::release(void* memory, const tessera_device& device) const {
  const CurrentGpu current(device.index);
  return checked(cudaFreeAsync(memory, static_cast<cudaStream_t>(device.stream)), "cudaFreeAsync");
}

}  // namespace tessera::cuda::runtime
