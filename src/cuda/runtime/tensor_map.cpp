#include "cuda/runtime/tensor_map.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include "cuda/runtime/cuda_call.hpp"

namespace tessera::cuda::runtime {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kSince = 12000;  // the version of CUDA that brought it
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault,
                                       &found) != cudaSuccess)
    (void)cudaGetLastError();
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

}  // namespace

core::Status encode(const BoxedTensor& t, TensorMap* map) {
  static const Encode function = find_encode();
  if (function == nullptr)
    return {TESSERA_DEVICE_UNAVAILABLE, "the NVIDIA driver has no cuTensorMapEncodeTiled"};
  constexpr cuuint32_t kOneByOne[4] = {1, 1, 1, 1};
  const cuuint32_t box[4] = {64, t.box_rows, 1, 1};
  const CUresult result = function(
      reinterpret_cast<CUtensorMap*>(map),
      t.bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, t.data,
      t.extents.data(), t.strides_bytes.data(), box, kOneByOne, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return {};
  return {
      TESSERA_INTERNAL,
      fmt::format("cuTensorMapEncodeTiled failed with error {} (columns, rows, heads, batch: {} x {} x {} "
                  "x {}; strides in bytes: {}, {}, {})",
                  static_cast<int>(result), t.extents[0], t.extents[1], t.extents[2], t.extents[3],
                  t.strides_bytes[0], t.strides_bytes[1], t.strides_bytes[2])};
}

}  // namespace tessera::cuda::runtime
