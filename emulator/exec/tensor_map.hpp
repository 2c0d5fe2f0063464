// A tensor map as the emulator has it: 128 opaque bytes for the program, this for the encoder and the TMA.
#pragma once

#include <array>
#include <cstdint>

namespace emulator {

enum class TensorElement : std::uint8_t {
  kUint8,
  kUint16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBFloat16
};
enum class TensorSwizzle : std::uint8_t { kNone, k32, k64, k128 };  // bytes of a row that is swizzled

inline constexpr std::uint32_t kTensorMapMagic = 0x4d545645;  // anything else is not a tensor map

// Dimension 0 is the innermost, whose stride is the element. What lies outside the extents reads as zero.
struct alignas(64) TensorMap {
  std::uint32_t magic = kTensorMapMagic;
  TensorElement element = TensorElement::kFloat16;
  std::uint8_t element_bytes = 2;
  std::uint8_t rank = 0;  // 1 to 5
  TensorSwizzle swizzle = TensorSwizzle::kNone;
  std::uint64_t base = 0;                  // global address
  std::array<std::uint64_t, 4> strides{};  // bytes, of dimensions 1 to rank - 1
  std::array<std::uint64_t, 5> extents{};  // elements
  std::array<std::uint32_t, 5> box{};      // elements; element strides are 1
  std::uint32_t unused[5]{};
};
static_assert(sizeof(TensorMap) == 128 && alignof(TensorMap) == 64);

}  // namespace emulator
