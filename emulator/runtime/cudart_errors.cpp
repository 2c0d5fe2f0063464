// cudart: errors by name and in words.
#include <cuda_runtime_api.h>

#include "emulator/runtime/machine.hpp"

namespace {

struct Words {
  cudaError_t code;
  const char* name;
  const char* sentence;
};

#define EMULATOR_ERROR(code, sentence) \
  { code, #code, sentence }
constexpr Words kErrors[] = {
    EMULATOR_ERROR(cudaSuccess, "no error"),
    EMULATOR_ERROR(cudaErrorInvalidValue, "invalid argument"),
    EMULATOR_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    EMULATOR_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    EMULATOR_ERROR(cudaErrorMissingConfiguration, "a kernel was called without a launch configuration"),
    EMULATOR_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    EMULATOR_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    EMULATOR_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    EMULATOR_ERROR(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    EMULATOR_ERROR(cudaErrorNoKernelImageForDevice,
                   "no kernel image is available for execution on the device"),
    EMULATOR_ERROR(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    EMULATOR_ERROR(cudaErrorFileNotFound, "file not found"),
    EMULATOR_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    EMULATOR_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    EMULATOR_ERROR(cudaErrorSymbolNotFound, "named symbol not found"),
    EMULATOR_ERROR(cudaErrorNotReady, "device not ready"),
    EMULATOR_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    EMULATOR_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    EMULATOR_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    EMULATOR_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    EMULATOR_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    EMULATOR_ERROR(cudaErrorNotSupported, "operation not supported"),
    EMULATOR_ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    EMULATOR_ERROR(cudaErrorStreamCaptureInvalidated,
                   "operation failed due to a previous error during capture"),
    EMULATOR_ERROR(cudaErrorStreamCaptureWrongThread, "attempt to end a capture from another thread"),
    EMULATOR_ERROR(cudaErrorCallRequiresNewerDriver, "the call needs a newer driver"),
    EMULATOR_ERROR(cudaErrorInsufficientDriver, "the driver is older than the runtime"),
    EMULATOR_ERROR(cudaErrorUnknown, "unknown error")};
#undef EMULATOR_ERROR

const Words* words_of(cudaError_t code) {
  for (const Words& each : kErrors)
    if (each.code == code) return &each;
  return nullptr;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const Words* const words = words_of(error);
  return words == nullptr ? "an error code that the emulator has no name for" : words->name;
}
const char* cudaGetErrorString(cudaError_t error) {
  const Words* const words = words_of(error);
  return words == nullptr ? "an error code that the emulator has no words for" : words->sentence;
}
cudaError_t cudaGetLastError() { return emulator::runtime::last_error(true); }
cudaError_t cudaPeekAtLastError() { return emulator::runtime::last_error(false); }
