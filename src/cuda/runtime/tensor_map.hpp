// Tensor maps: what the TMA unit of sm_90 is told of a tensor. The driver writes them.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/dispatch.hpp"

namespace tessera::cuda {
struct TensorMap;  // ptx/tma.hpp
}

namespace tessera::cuda::runtime {

// A tensor that is copied in boxes of 128 bytes of a row, swizzled, or in strips of 8 columns of 16 bits, not
// swizzled; what a box has beyond the tensor's edge reads as zeros and is not written.
struct BoxedTensor {
  void* data = nullptr;
  Element element = Element::f16;
  std::array<std::uint64_t, 4> extents{};        // columns, rows, heads, batch
  std::array<std::uint64_t, 3> strides_bytes{};  // of rows, heads, batch
  std::uint32_t box_rows = 0;
  bool strip = false;
  // What L2 asks memory for at a time: 256 bytes, or 128. Streams that are read once are up to 8% faster with
  // the latter, if boxes are of 128 bytes of longer rows (docs/serving.md).
  bool streams = false;

  bool operator==(const BoxedTensor&) const = default;
};

}  // namespace tessera::cuda::runtime
