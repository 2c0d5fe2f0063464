// The driver's two functions for tensor maps, asked for when the first one is needed, so that nothing has to
// be linked.
#include "cuda/runtime/tensor_map.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include "cuda/runtime/cuda_runtime.hpp"

namespace tessera::cuda::runtime {
namespace {

template <class Function>
Function* driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kSince = 12000;  // the version of CUDA that brought them
  if (cudaGetDriverEntryPointByVersion(name, &function, kSince, cudaEnableDefault, &found) != cudaSuccess)
    (void)cudaGetLastError();
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function*>(function) : nullptr;
}

// The driver wants a context for tensor maps, and a thread has none before its first call of cudart that
// needs one: then the GPU is set, which makes its context the thread's and may be done during a capture.
template <class Call>
CUresult in_context(int gpu, Call call) {
  static auto* const get_current = driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  if (get_current == nullptr || (get_current(&context) == CUDA_SUCCESS && context != nullptr)) return call();
  const CurrentGpu current(gpu);  // puts the thread's GPU back
  if (cudaSetDevice(gpu) != cudaSuccess) (void)cudaGetLastError();
  return call();
}

core::Status no_function(std::string_view name) {
  return {TESSERA_DEVICE_UNAVAILABLE, fmt::format("the NVIDIA driver has no {}", name)};
}

}  // namespace

core::Status CudaRuntime::encode(const BoxedTensor& t, int gpu, TensorMap* map) const {
  static auto* const function = driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (function == nullptr) return no_function("cuTensorMapEncodeTiled");
  constexpr cuuint32_t kOneByOne[4] = {1, 1, 1, 1};
  const bool bytes = t.element == Element::e4m3 || t.element == Element::e5m2;
  const cuuint32_t box[4] = {t.strip                     ? 8u
                             : bytes                     ? 128u
                             : t.element == Element::f32 ? 32u
                                                         : 64u,
                             t.box_rows, 1, 1};
  const CUtensorMapDataType type = bytes                        ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                   : t.element == Element::f32  ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                   : t.element == Element::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const CUresult result = in_context(gpu, [&] {
    return function(reinterpret_cast<CUtensorMap*>(map), type, 4, t.data, t.extents.data(),
                    t.strides_bytes.data(), box, kOneByOne, CU_TENSOR_MAP_INTERLEAVE_NONE,
                    t.strip ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
                    t.streams ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  });
  if (result == CUDA_SUCCESS) return {};
  return {
      TESSERA_INTERNAL,
      fmt::format("cuTensorMapEncodeTiled failed with error {} (columns, rows, heads, batch: {} x {} x {} "
                  "x {}; strides in bytes: {}, {}, {})",
                  static_cast<int>(result), t.extents[0], t.extents[1], t.extents[2], t.extents[3],
                  t.strides_bytes[0], t.strides_bytes[1], t.strides_bytes[2])};
}

core::Status CudaRuntime::move_map(TensorMap* map, void* data) const {
  static auto* const function =
      driver_function<decltype(cuTensorMapReplaceAddress)>("cuTensorMapReplaceAddress");
  if (function == nullptr) return no_function("cuTensorMapReplaceAddress");
  const CUresult result = function(reinterpret_cast<CUtensorMap*>(map), data);
  if (result == CUDA_SUCCESS) return {};
  return {TESSERA_INTERNAL,
          fmt::format("cuTensorMapReplaceAddress failed with error {}", static_cast<int>(result))};
}

}  // namespace tessera::cuda::runtime
