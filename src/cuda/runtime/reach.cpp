// Do a call's memory and its stream belong to the GPU that is to compute it? Asked before the first launch
// with a set of addresses: a wrong pointer would otherwise come back as a fault that takes the whole CUDA
// context along.
#include "cuda/runtime/cuda_runtime.hpp"
#include "cuda/runtime/sentences.hpp"

namespace tessera::cuda::runtime {
namespace {

core::Status check_one(std::string_view tensor, const void* data, int wanted) {
  cudaPointerAttributes attributes{};
  if (core::Status s = checked(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
      !s.ok())
    return s;
  switch (attributes.type) {
    case cudaMemoryTypeUnregistered:
      return check_memory_kind(tensor, MemoryKind::host, 0, wanted);
    case cudaMemoryTypeHost:
      // Pinned memory that was registered under another address for GPUs is not usable by this one.
      return check_memory_kind(
          tensor, attributes.devicePointer == data ? MemoryKind::pinned_host : MemoryKind::host, 0, wanted);
    case cudaMemoryTypeManaged:
      return check_memory_kind(tensor, MemoryKind::managed, attributes.device, wanted);
    default:
      return check_memory_kind(tensor, MemoryKind::gpu, attributes.device, wanted);
  }
}

core::Status check_stream(void* stream, int wanted) {
#if CUDART_VERSION >= 12080
  const auto handle = static_cast<cudaStream_t>(stream);
  // The default streams belong to whichever GPU is current.
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) return {};
  // A stream that is being captured must not be asked: that would end the capture.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (core::Status s = checked(cudaStreamIsCapturing(handle, &capture), "looking at device.stream"); !s.ok())
    return s;
  if (capture != cudaStreamCaptureStatusNone) return {};
  int owner = wanted;
  const cudaError_t error = cudaStreamGetDevice(handle, &owner);
  if (error == cudaErrorCallRequiresNewerDriver || error == cudaErrorNotSupported) {
    (void)cudaGetLastError();
    return {};
  }
  if (core::Status s = checked(error, "looking at device.stream"); !s.ok()) return s;
  return check_stream_device(owner, wanted);
#else
  (void)stream, (void)wanted;
  return {};
#endif
}

}  // namespace

core::Status CudaRuntime::check_memory(std::span<const Named> all, const tessera_device& device) const {
  if (core::Status s = check_stream(device.stream, device.index); !s.ok()) return s;
  const CurrentGpu current(device.index);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  for (const Named& each : all) {
    if (each.data == nullptr) continue;
    if (core::Status s = check_one(each.name, each.data, device.index); !s.ok()) return s;
  }
  if (device.workspace == nullptr) return {};
  return check_one("device.workspace", device.workspace, device.index);
}

}  // namespace tessera::cuda::runtime
