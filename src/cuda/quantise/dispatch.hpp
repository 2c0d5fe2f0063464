// The kernels as the host sees them. No CUDA headers. Defined by src/cuda/instances/quantise_all.cu.
#pragma once

#include "cuda/dispatch.hpp"
#include "cuda/mixed.hpp"

namespace tessera::cuda::quantise {

inline constexpr int kThreads = 256;
inline constexpr int kTileRows = 64;  // whose codes a block writes at a time, where they are turned around
inline constexpr int kTilePitch = kTileRows + 4;   // bytes of a channel, where they are turned around
inline constexpr int kColumns = 32;                // whose means, or scales, a block finds at a time
inline constexpr int kSumThreads = kColumns * 16;  // a warp for each block of a chunk's rows
inline constexpr int kMostLanes = 32;              // that have a row together
constexpr int wide_of(long long bytes) {
  return static_cast<int>(16 / bytes);
}  // elements that one lane loads at once

// `input`: f32, f16 or bf16.
const void* add_up_function(Element input);
const void* finish_means_function();
// `whole_rows`: to rotate rows that are longer than kMostLanes loads.
const void* find_largest_function(Element input, bool whole_rows);
const void* finish_scales_function();
const void* write_codes_function(Element input, Codes codes, bool whole_rows);

}  // namespace tessera::cuda::quantise
