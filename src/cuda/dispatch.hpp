// Kernels as the host sees them: which element types, head dims and variants there are. No CUDA headers.
#pragma once

namespace tessera::cuda {

// Of query, key, value and output; tile/element.hpp has what each is on the device.
enum class Element { f16, bf16, f32, e4m3, e5m2 };

// Head dims that have kernels of their own; others are padded with zeros to the next.
struct HeadDims {
  int dim, value_dim;
};

// The kernels of one element type and head dim, by variant; null where there is none.
template <class Variant, int kVariants>
struct FunctionTable {
  const void* function[kVariants] = {};

  const void*& operator[](Variant v) { return function[static_cast<int>(v)]; }
  const void* of(Variant v) const { return function[static_cast<int>(v)]; }
};

}  // namespace tessera::cuda
