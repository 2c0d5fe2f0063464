// The driver's functions that programs ask for by name: tensor maps. The rules are those of the CUDA driver
// API's documentation of cuTensorMapEncodeTiled; a map that breaks one is refused, as the driver refuses it.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "emulator/exec/tensor_map.hpp"
#include "emulator/runtime/complain.hpp"
#include "emulator/runtime/machine.hpp"

namespace {

using emulator::TensorElement;
using emulator::TensorMap;
using emulator::TensorSwizzle;
using emulator::runtime::complain;

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

struct Element {
  CUtensorMapDataType given;
  TensorElement element;
  std::uint8_t bytes;
};
constexpr Element kElements[] = {{CU_TENSOR_MAP_DATA_TYPE_UINT8, TensorElement::kUint8, 1},
                                 {CU_TENSOR_MAP_DATA_TYPE_UINT16, TensorElement::kUint16, 2},
                                 {CU_TENSOR_MAP_DATA_TYPE_UINT32, TensorElement::kUint32, 4},
                                 {CU_TENSOR_MAP_DATA_TYPE_INT32, TensorElement::kInt32, 4},
                                 {CU_TENSOR_MAP_DATA_TYPE_UINT64, TensorElement::kUint64, 8},
                                 {CU_TENSOR_MAP_DATA_TYPE_INT64, TensorElement::kInt64, 8},
                                 {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, TensorElement::kFloat16, 2},
                                 {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, TensorElement::kFloat32, 4},
                                 {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, TensorElement::kFloat64, 8},
                                 {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, TensorElement::kBFloat16, 2}};

bool set_element(CUtensorMapDataType given, TensorMap* map) {
  for (const Element& each : kElements) {
    if (each.given != given) continue;
    map->element = each.element;
    map->element_bytes = each.bytes;
    return true;
  }
  complain("cuTensorMapEncodeTiled: data type " + std::to_string(given) + " is not emulated");
  return false;
}

// The bytes of a row that a swizzle goes over; 0: none.
bool set_swizzle(CUtensorMapSwizzle given, TensorMap* map, unsigned* row_bytes) {
  switch (given) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      map->swizzle = TensorSwizzle::kNone, *row_bytes = 0;
      return true;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      map->swizzle = TensorSwizzle::k32, *row_bytes = 32;
      return true;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      map->swizzle = TensorSwizzle::k64, *row_bytes = 64;
      return true;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      map->swizzle = TensorSwizzle::k128, *row_bytes = 128;
      return true;
    default:
      complain("cuTensorMapEncodeTiled: swizzle " + std::to_string(given) + " is not emulated");
      return false;
  }
}

bool refused(const std::string& why) {
  complain("cuTensorMapEncodeTiled: " + why);
  return false;
}

// Extents, strides and the box of each dimension.
bool set_dimensions(const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                    const cuuint32_t* element_strides, TensorMap* map) {
  constexpr std::uint64_t kMostExtent = std::uint64_t{1} << 32, kMostStride = std::uint64_t{1} << 40;
  constexpr std::uint32_t kMostBox = 256;
  for (unsigned d = 0; d < map->rank; ++d) {
    const std::string which = " of dimension " + std::to_string(d) + " is ";
    if (extents[d] == 0 || extents[d] > kMostExtent)
      return refused("the extent" + which + std::to_string(extents[d]));
    if (box[d] == 0 || box[d] > kMostBox) return refused("the box" + which + std::to_string(box[d]));
    if (element_strides[d] != 1) return refused("an element stride other than 1 is not emulated");
    map->extents[d] = extents[d];
    map->box[d] = box[d];
    if (d == 0) continue;
    const std::uint64_t stride = strides[d - 1];
    if (stride % 16 != 0 || stride >= kMostStride)
      return refused("the stride" + which + std::to_string(stride));
    map->strides[d - 1] = stride;
  }
  return true;
}

CUresult encode(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
                const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  constexpr cuuint32_t kMostRank = 5;
  if (!emulator::runtime::thread_has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || reinterpret_cast<std::uintptr_t>(out) % alignof(TensorMap) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  TensorMap map;
  unsigned row_bytes = 0;
  map.base = reinterpret_cast<std::uintptr_t>(address);
  map.rank = static_cast<std::uint8_t>(rank);
  const auto checked = [&] {
    if (rank == 0 || rank > kMostRank) return refused("the rank is " + std::to_string(rank));
    if (map.base % 16 != 0) return refused("the address is not a multiple of 16");
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return refused("interleaved layouts are not emulated");
    if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) return refused("filling with NaN is not emulated");
    if (!set_element(type, &map) || !set_swizzle(swizzle, &map, &row_bytes)) return false;
    if (!set_dimensions(extents, strides, box, element_strides, &map)) return false;
    const std::uint32_t inner = map.box[0] * map.element_bytes;
    if (inner % 16 != 0 || (row_bytes != 0 && inner > row_bytes))
      return refused("the box has rows of " + std::to_string(inner) + " bytes");
    return true;
  };
  if (!checked()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

CUresult replace_address(CUtensorMap* out, void* address) {
  auto map = std::bit_cast<TensorMap>(*out);
  const auto base = reinterpret_cast<std::uintptr_t>(address);
  if (map.magic != emulator::kTensorMapMagic || base % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  map.base = base;
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

CUresult current_context(CUcontext* out) {
  static char one;
  *out = emulator::runtime::thread_has_context() ? reinterpret_cast<CUcontext>(&one) : nullptr;
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult* found) {
  static_assert(std::is_same_v<decltype(&encode), decltype(&cuTensorMapEncodeTiled)>);
  static_assert(std::is_same_v<decltype(&replace_address), decltype(&cuTensorMapReplaceAddress)>);
  static_assert(std::is_same_v<decltype(&current_context), decltype(&cuCtxGetCurrent)>);
  const std::string_view name = symbol;
  *function = name == "cuTensorMapEncodeTiled"      ? reinterpret_cast<void*>(encode)
              : name == "cuTensorMapReplaceAddress" ? reinterpret_cast<void*>(replace_address)
              : name == "cuCtxGetCurrent"           ? reinterpret_cast<void*>(current_context)
                                                    : nullptr;
  if (found != nullptr)
    *found = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (*function != nullptr) return cudaSuccess;
  return emulator::runtime::not_emulated("the driver's function " + std::string(name));
}
