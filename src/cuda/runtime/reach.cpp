// Does a problem's memory, and its stream, belong to the GPU that is to compute it? Asked before every
// launch: a wrong pointer would otherwise come back as a fault that takes the whole CUDA context along.
#include "cuda/runtime/cuda_call.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/runtime/sentences.hpp"
#include "cuda/runtime/tensors.hpp"

namespace tessera::cuda::runtime {
namespace {

core::Status check_memory(std::string_view tensor, const void* data, int wanted) {
  cudaPointerAttributes attributes{};
  if (core::Status s = checked(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
      !s.ok())
    return s;
  switch (attributes.type) {
    case cudaMemoryTypeUnregistered:
      return check_place(tensor, Place::host, 0, wanted);
    case cudaMemoryTypeHost:
      // Pinned memory that was registered under another address for GPUs is not usable by this one.
      return check_place(tensor, attributes.devicePointer == data ? Place::pinned_host : Place::host, 0,
                         wanted);
    case cudaMemoryTypeManaged:
      return check_place(tensor, Place::managed, attributes.device, wanted);
    default:
      return check_place(tensor, Place::gpu, attributes.device, wanted);
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

core::Status check_reachable(const core::Problem& problem, const tessera_device& device) {
  if (core::Status s = check_stream(device.stream, device.index); !s.ok()) return s;
  const CurrentGpu current(device.index);
  if (core::Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  return for_each_tensor(problem, [&](std::string_view name, const void* data) {
    return check_memory(name, data, device.index);
  });
}

}  // namespace tessera::cuda::runtime
