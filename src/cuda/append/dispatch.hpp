// The kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/dispatch.hpp"

namespace tessera::cuda::append {

inline constexpr int kThreads = 128;

// How rows are moved: by 16 bytes, element by element, or so into a cache of 8 bits beside wider rows.
enum class Way { wide, narrow, codes };

// Defined by src/cuda/instances/append_all.cu.
const void* function_for(Element element, Way way);
// Of keys that have a tail; not Way::wide. Defined by src/cuda/instances/append_tail.cu.
const void* tail_function_for(Element element, Way way);

}  // namespace tessera::cuda::append
