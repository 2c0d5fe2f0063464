// Rung 6, tensor_tiled: larger pieces for everyone. A warp multiplies a strip of 16x16 tiles (strips.hpp), so
// that a fragment of Q that was loaded once is used for all of them; one barrier of the block a tile is left.
//
//   P V, still scalar:        lanes 0-15: dims 0-3  4-7  8-11 ...     (0-7, 8-15, ... for a head dim of 128)
//   8 rows x 4 dims a lane    lanes 16-31: the same for the other 8 rows
//
// A value is unpacked once for eight rows, and a P read once for four dims (eight), four keys (two) at a
// time. The second kernel accumulates Q K^T in 16 bits: half the registers, less accuracy.
#pragma once

#include "cuda/ladder/strips.hpp"
#include "cuda/ptx/global_store.hpp"

namespace tessera::cuda::ladder {

// P V: lane's rows 2 * r + lane / 16, and kLaneDims dims from lane % 16 * kLaneDims on.
template <int kDim>
inline constexpr int kLaneDims = kDim / 16;
template <int kDim>
using StripOutput = float[8][kLaneDims<kDim>];

// A row's factor is in its two lanes.
template <int kDim>
__device__ inline void scale_rows(StripOutput<kDim>& acc, float factor) {
  const int lane = lane_index();
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const float f = __shfl_sync(0xffffffffu, factor, 2 * (2 * r + lane / 16));
#pragma unroll
    for (float& a : acc[r]) a *= f;
  }
}

template <class T, int kDim, bool kSkipZeros>
__device__ inline void add_values(StripOutput<kDim>& acc, const unsigned char* value) {
  constexpr int kDims = kLaneDims<kDim>, kStep = 16 / kDims;  // keys at once
  const int lane = lane_index(), first = lane % 16 * kDims;
  const float* const probs = warp_scores<kDim>() + lane / 16 * Strip<kDim>::kScoreStride;
#pragma unroll 1
  for (int j = 0; j < Strip<kDim>::kKeys; j += kStep) {
    unsigned words[kStep][kDims / 2];
#pragma unroll
    for (int e = 0; e < kStep; ++e) {
      const unsigned char* const at = value + chunk_offset<kDim>(j + e, first / 8) + first % 8 * 2;
      if constexpr (kDims == 8) {
        const uint4 four = *reinterpret_cast<const uint4*>(at);
        words[e][0] = four.x, words[e][1] = four.y, words[e][2] = four.z, words[e][3] = four.w;
      } else {
        const uint2 two = *reinterpret_cast<const uint2*>(at);
        words[e][0] = two.x, words[e][1] = two.y;
      }
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) {
      const float* const from = probs + 2 * r * Strip<kDim>::kScoreStride + j;
      float prob[kStep];
      if constexpr (kStep == 4) {
        const float4 four = *reinterpret_cast<const float4*>(from);
        prob[0] = four.x, prob[1] = four.y, prob[2] = four.z, prob[3] = four.w;
      } else {
        const float2 two = *reinterpret_cast<const float2*>(from);
        prob[0] = two.x, prob[1] = two.y;
      }
#pragma unroll
      for (int e = 0; e < kStep; ++e)
#pragma unroll
        for (int w = 0; w < kDims / 2; ++w) {
          const float2 v = tile::unpack<T>(kSkipZeros && prob[e] == 0.0f ? 0u : words[e][w]);
          acc[r][2 * w] = fmaf(prob[e], v.x, acc[r][2 * w]);
          acc[r][2 * w + 1] = fmaf(prob[e], v.y, acc[r][2 * w + 1]);
        }
    }
  }
}

template <class T, int kDim>
__device__ inline void write_rows(const StripBlock<T, kDim>& block, StripOutput<kDim>& acc,
                                  tile::SoftmaxState state) {
  constexpr int kDims = kLaneDims<kDim>;
  const int lane = lane_index(), first_row = warp_row<kDim>();
  state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 1);
  scale_rows<kDim>(acc, tile::inverse_sum(state));
  const int first = lane % 16 * kDims;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const int out_row = first_row + 2 * r + lane / 16;
    if (!block.exists(out_row) || first >= block.p.sizes.value_dim) continue;
    T* const out = block.output(out_row) + first;
    if constexpr (kDims == 8) {
      ptx::store_words(out, tile::pack<T>(acc[r][0], acc[r][1]), tile::pack<T>(acc[r][2], acc[r][3]),
                       tile::pack<T>(acc[r][4], acc[r][5]), tile::pack<T>(acc[r][6], acc[r][7]));
    } else {
      ptx::store_words(out, tile::pack<T>(acc[r][0], acc[r][1]), tile::pack<T>(acc[r][2], acc[r][3]));
    }
  }
  const int row = first_row + strip_row();
  if (strip_half() == 0 && block.exists(row)) block.write_lse(row, state);
}

template <class T, int kDim, bool kHalfSums>
__device__ inline void attend_tiled(const Params& p) {
  using S = Strip<kDim>;
  using Slots = ChunkSlots<T, kDim, S::kThreads, StripBlock<T, kDim>>;
  static_assert(Slots::kEnd == S::kScores);
  tile::SoftmaxState state = tile::empty_softmax();
  StripOutput<kDim> acc = {};
  const StripBlock<T, kDim> block(p);
  Slots::start_query(block);
  Slots::start_tile(block, 0);
  for (int t = 0; t < block.tiles(); ++t) {
    Slots::advance(block, t);
    multiply_strip<T, kDim, kHalfSums>(ptx::shared_address(shared_memory) + Slots::key(t));
    __syncwarp();
    float x[S::kMyKeys];
    scale_rows<kDim>(acc, strip_softmax<T, kDim>(x, block, t, state));
    float* const to = my_scores<kDim>();
    bool zero = false;
#pragma unroll
    for (int i = 0; i < S::kMyKeys; i += 4) {
      const float4 four = {x[i], x[i + 1], x[i + 2], x[i + 3]};
      *reinterpret_cast<float4*>(to + 2 * i) = four;
      zero |= four.x == 0.0f || four.y == 0.0f || four.z == 0.0f || four.w == 0.0f;
    }
    const bool skip_zeros = __any_sync(0xffffffffu, zero) != 0;  // 0 * NaN: see any_zero() in quads.hpp
    __syncwarp();
    if (skip_zeros) {
      add_values<T, kDim, true>(acc, shared_memory + Slots::value(t));
    } else {
      add_values<T, kDim, false>(acc, shared_memory + Slots::value(t));
    }
  }
  ptx::wait_copies<0>();
  write_rows<T, kDim>(StripBlock<T, kDim>(p), acc, state);
}

template <class T, int kDim>
__global__ void __launch_bounds__(Strip<kDim>::kThreads, 4) tensor_tiled(const __grid_constant__ Params p) {
  attend_tiled<T, kDim, false>(p);
}

template <class T, int kDim>
__global__ void __launch_bounds__(Strip<kDim>::kThreads, 4)
    tensor_tiled_f16(const __grid_constant__ Params p) {
  attend_tiled<T, kDim, true>(p);
}

}  // namespace tessera::cuda::ladder
