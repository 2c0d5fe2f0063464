// Memory that a plan needs and the caller gave none for. Every stream keeps what its calls needed most: they
// run one after the other there, so one block serves all of them, and nobody waits. While a stream is being
// captured, and for streams beyond the most that are remembered, it comes from a pool in the order of the
// stream, which takes the host 10 us a call.
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "cuda/runtime/cuda_runtime.hpp"

namespace tessera::cuda::runtime {
namespace {

cudaError_t make_pool(int gpu, cudaMemPool_t* pool) {
  cudaMemPoolProps wanted{};
  wanted.allocType = cudaMemAllocationTypePinned;
  wanted.location = {cudaMemLocationTypeDevice, gpu};
  if (const cudaError_t error = cudaMemPoolCreate(pool, &wanted); error != cudaSuccess) return error;
  // A stream reuses its own memory alone: a kernel that may start early (ptx/pdl.hpp) does not wait for what
  // the pool would have it wait for on another stream.
  for (const cudaMemPoolAttr reuse :
       {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
        cudaMemPoolReuseAllowInternalDependencies}) {
    int no = 0;
    if (const cudaError_t error = cudaMemPoolSetAttribute(*pool, reuse, &no); error != cudaSuccess)
      return error;
  }
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

core::Status from_pool(std::int64_t bytes, const tessera_device& device, void** out) {
  cudaMemPool_t pool = nullptr;
  if (core::Status s = checked(pool_of(device.index, &pool), "cudaMemPoolCreate"); !s.ok()) return s;
  return checked(cudaMallocFromPoolAsync(out, static_cast<std::size_t>(bytes), pool,
                                         static_cast<cudaStream_t>(device.stream)),
                 fmt::format("cudaMallocFromPoolAsync for a workspace of {} bytes", bytes));
}

core::Status to_pool(void* memory, const tessera_device& device) {
  return checked(cudaFreeAsync(memory, static_cast<cudaStream_t>(device.stream)), "cudaFreeAsync");
}

// What a stream keeps. Held from a call's first launch to its last, so that the launches of two threads'
// calls do not mix on one stream.
struct Kept {
  std::mutex held;
  void* data = nullptr;
  std::int64_t bytes = 0;
};

class KeptMemory {
 public:
  // The stream's, or null: it is being captured, or too many others have theirs.
  Kept* of(const tessera_device& device) {
    auto* const stream = static_cast<cudaStream_t>(device.stream);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;  // unlike its address, never another stream's
    // A stream that is being captured may not be asked for its id: that would end the capture.
    if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess || capture != cudaStreamCaptureStatusNone ||
        cudaStreamGetId(stream, &id) != cudaSuccess) {
      (void)cudaGetLastError();
      return nullptr;
    }
    const std::lock_guard lock(mutex_);
    const auto key = std::make_pair(device.index, id);
    if (const auto found = streams_.find(key); found != streams_.end()) return &found->second;
    return streams_.size() < kMostStreams ? &streams_[key] : nullptr;
  }

 private:
  static constexpr std::size_t kMostStreams = 256;

  std::mutex mutex_;
  std::map<std::pair<int, unsigned long long>, Kept> streams_;
};

KeptMemory& kept_memory() {
  static auto* const kept = new KeptMemory;  // never destroyed: a thread may outlive main
  return *kept;
}

thread_local Kept* held_here = nullptr;

}  // namespace

core::Status CudaRuntime::allocate(std::int64_t bytes, const tessera_device& device, void** out) const {
  const CurrentGpu current(device.index);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  Kept* const kept = kept_memory().of(device);
  if (kept == nullptr) return from_pool(bytes, device, out);
  std::unique_lock lock(kept->held);
  if (kept->bytes < bytes) {
    if (kept->data != nullptr) {
      kept->bytes = 0;
      if (core::Status s = to_pool(std::exchange(kept->data, nullptr), device); !s.ok()) return s;
    }
    if (core::Status s = from_pool(bytes, device, &kept->data); !s.ok()) return s;
    kept->bytes = bytes;
  }
  *out = kept->data;
  held_here = kept;
  (void)lock.release();  // held until release()
  return {};
}

core::Status CudaRuntime::release(void* memory, const tessera_device& device) const {
  if (held_here != nullptr && held_here->data == memory) {
    std::exchange(held_here, nullptr)->held.unlock();
    return {};
  }
  const CurrentGpu current(device.index);
  return to_pool(memory, device);
}

}  // namespace tessera::cuda::runtime
