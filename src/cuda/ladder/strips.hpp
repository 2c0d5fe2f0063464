// What rungs 6 and 7 share: a warp owns 16 query rows and a whole strip of 16x16 tiles of scores.
//
//            keys 0-15   16-31   32-47   48-63
//   warp w  [ tile 0 ][ tile 1 ][ tile 2 ][ tile 3 ]   a Q fragment is loaded once and multiplied four times
//
// Its scores go through its own part of shared memory to the softmax, two lanes a row. The rows are the
// warp's from Q K^T to the output, so a warp barrier is all that this needs.
#pragma once

#include "cuda/ladder/chunks.hpp"
#include "cuda/ptx/matrix.hpp"
#include "cuda/tile/element.hpp"

namespace tessera::cuda::ladder {

template <int kDim>
struct Strip {
  static constexpr int kRows = 64, kThreads = 128;
  static constexpr int kWarpRows = 16;
  static constexpr int kKeys = 4096 / kDim;       // K and V tiles of 8 KB
  static constexpr int kMyKeys = kKeys / 2;       // softmax: two threads a row
  static constexpr int kScoreStride = kKeys + 8;  // floats; a step of 8 banks a row serves all three patterns
  static constexpr int kScores = (kRows + 4 * kKeys) * kDim * 2;  // bytes, behind Q, K and V: see chunks.hpp
  static constexpr int kSharedBytes = kScores + kRows * kScoreStride * 4;
};

struct StripShape {
  static constexpr int kRows = Strip<64>::kRows, kThreads = Strip<64>::kThreads;
  static constexpr int shared_bytes(int dim) {
    return dim <= 64 ? Strip<64>::kSharedBytes : Strip<128>::kSharedBytes;
  }
};

template <class T, int kDim>
using StripBlock = Block<T, Strip<kDim>::kRows, Strip<kDim>::kKeys>;

// Of the warp: its first row, and its strip of scores in shared memory.
template <int kDim>
__device__ inline int warp_row() {
  return warp_index() * Strip<kDim>::kWarpRows;
}
template <int kDim>
__device__ inline float* warp_scores() {
  auto* const scores = reinterpret_cast<float*>(shared_memory + Strip<kDim>::kScores);
  return scores + warp_row<kDim>() * Strip<kDim>::kScoreStride;
}

// The strip of scores for the key tile at shared-memory address `key`.
template <class T, int kDim, bool kHalfSums>
__device__ inline void multiply_strip(unsigned key) {
  constexpr int kTiles = Strip<kDim>::kKeys / 16, kStride = Strip<kDim>::kScoreStride;
  const unsigned query = ptx::shared_address(shared_memory) + warp_row<kDim>() * kDim * 2;
  const LaneAddress<kDim> query_at(tile::ldmatrix_a(lane_index())), key_at(tile::ldmatrix_b(lane_index()));
  float s[2 * kTiles][4] = {};
  unsigned halves[2 * kTiles][2] = {};
#pragma unroll( \
    256 / kDim)  // all of a head dim of 128 would have more fragments in flight than there are registers
  for (int k = 0; k < kDim / 16; ++k) {
    unsigned a[4];
    ptx::load_matrix_x4(a, query_at(query, 0, k));
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      unsigned b[4];
      ptx::load_matrix_x4(b, key_at(key, 16 * n, k));
      if constexpr (kHalfSums) {
        ptx::mma_f16(halves[2 * n], a, b[0], b[1]);
        ptx::mma_f16(halves[2 * n + 1], a, b[2], b[3]);
      } else {
        ptx::mma_f32<T>(s[2 * n], a, b[0], b[1]);
        ptx::mma_f32<T>(s[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
  float* const scores = warp_scores<kDim>();
#pragma unroll
  for (int n = 0; n < 2 * kTiles; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const tile::FragmentIndex at = tile::index_in_c(lane_index(), 2 * h);
      float2 pair = {s[n][2 * h], s[n][2 * h + 1]};
      if constexpr (kHalfSums) pair = tile::unpack<__half>(halves[n][h]);
      *reinterpret_cast<float2*>(scores + at.row * kStride + 8 * n + at.column) = pair;
    }
}

// Softmax of the warp's rows, two lanes a row: key 8 * i + 4 * half + e of the tile is x[4 * i + e].
__device__ inline int strip_row() { return lane_index() / 2; }
__device__ inline int strip_half() { return lane_index() % 2; }

template <int kDim>
__device__ inline float* my_scores() {
  return warp_scores<kDim>() + strip_row() * Strip<kDim>::kScoreStride + 4 * strip_half();
}

// Reads the lane's scores and turns them into P; returns the factor for what was summed so far.
template <class T, int kDim>
__device__ inline float strip_softmax(float (&x)[Strip<kDim>::kMyKeys], const StripBlock<T, kDim>& block,
                                      int t, tile::SoftmaxState& state) {
  constexpr int kMyKeys = Strip<kDim>::kMyKeys;
  const float scale = block.p.scoring.scale_log2;
  const float* const scores = my_scores<kDim>();
#pragma unroll
  for (int i = 0; i < kMyKeys / 4; ++i) {
    const float4 four = *reinterpret_cast<const float4*>(scores + 8 * i);
    x[4 * i] = four.x * scale;
    x[4 * i + 1] = four.y * scale;
    x[4 * i + 2] = four.z * scale;
    x[4 * i + 3] = four.w * scale;
  }
  if (block.some_hidden(t)) {
    const int query = block.first_row + warp_row<kDim>() + strip_row();
    const int key0 = block.first_key(t) + 4 * strip_half();
#pragma unroll
    for (int i = 0; i < kMyKeys; ++i) {
      if (!block.view.band.visible(query, key0 + 8 * (i / 4) + i % 4)) x[i] = tile::minus_infinity();
    }
  }
  float largest = x[0];
#pragma unroll
  for (int i = 1; i < kMyKeys; ++i) largest = fmaxf(largest, x[i]);
  largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
  const float keep = tile::raise_row_max(state, largest);
#pragma unroll
  for (int i = 0; i < kMyKeys; ++i) {
    x[i] = ptx::exp2_approx(x[i] - state.row_max);
    state.sum += x[i];
  }
  return keep;
}

}  // namespace tessera::cuda::ladder
