// The kernels as the host sees them. No CUDA headers.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/mixed.hpp"

namespace tessera::cuda::fp8_rows {

inline constexpr int kThreads = 128;
inline constexpr int kWarps = kThreads / 32;  // a row each
inline constexpr int kColumns = 256;          // of a row that a warp computes at a time

// `output`: f16 or bf16, which an output of f32 and its priors are taken with,
// too. Defined by src/cuda/instances/fp8_rows_all.cu.
const void* function_for(Codes codes, Element output);
// Of keys beside a tail, of codes or of the query's type. Defined by src/cuda/instances/fp8_rows_tail.cu.
const void* tail_function_for(Codes codes, Element output);
const void* tail_function_for(Element keys);

}  // namespace tessera::cuda::fp8_rows
