// The serving kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/serving/configs.hpp"

namespace tessera::cuda::serving {

// Of the second kernel, and what it is told by every block of the first (run.hpp, Note).
inline constexpr int kNoteBytes = 64;
inline constexpr int kMergeThreads = 128;
inline constexpr int kMergeRoom = 32;  // slots in shared memory at a time
TESSERA_CONSTEXPR int merge_shared_bytes(int value_dim) {
  return kMergeRoom * value_dim * 4 + (kMostPieces + 1) * 12 + 16;
}

struct Functions {
  FunctionTable<Variant, kVariants> attend;
  const void* merge[2] = {};  // without and with options; where both dims are the same
};

// Defined by src/cuda/instances/serving_*.cu, for the rows of kHeadDims.
template <Element kElement, int kDim, int kValueDim>
Functions functions();

}  // namespace tessera::cuda::serving
