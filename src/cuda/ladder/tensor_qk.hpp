// Rung 5, tensor_qk: Q K^T on the tensor cores, everything else as before.
//
//   four warps, a 16x16 tile of scores each      eight rows a warp
//        keys 0-15  16-31
//   rows  +-------+-------+                      S --softmax--> P       in place, four threads a row
//   0-15  | warp 0| warp 2|  --> S (floats,  -->
//         +-------+-------+      shared memory)  O += P V               all 32 lanes: a lane holds two dims
//  16-31  | warp 1| warp 3|                                             (or four) of all eight rows
//         +-------+-------+
//
// mma.sync returns scores in a pattern of its own (tile/fragments.hpp); through shared memory they come back
// to plain rows. A value is unpacked once for eight rows: P V is scalar, but no longer wasteful.
#pragma once

#include "cuda/ladder/chunks.hpp"
#include "cuda/ladder/quads.hpp"
#include "cuda/ptx/matrix.hpp"

namespace tessera::cuda::ladder {

struct TensorQk {
  static constexpr int kWarpRows = Quads::kRows / 4;
  static constexpr int kScoreStride = Quads::kKeys + 4;  // floats; eight rows x four parts meet 32 banks
};

// One 16x16 tile of scores. `query` and `key` are shared-memory addresses of its first row and key.
template <class T, int kDim>
__device__ inline void multiply_one_tile(float* scores, unsigned query, unsigned key) {
  const int lane = lane_index();
  const LaneAddress<kDim> query_at(tile::ldmatrix_a(lane)), key_at(tile::ldmatrix_b(lane));
  float s[2][4] = {};
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    unsigned a[4], b[4];
    ptx::load_matrix_x4(a, query_at(query, 0, k));
    ptx::load_matrix_x4(b, key_at(key, 0, k));
    ptx::mma_f32<T>(s[0], a, b[0], b[1]);
    ptx::mma_f32<T>(s[1], a, b[2], b[3]);
  }
#pragma unroll
  for (int n = 0; n < 2; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const tile::FragmentIndex at = tile::index_in_c(lane, e);
      scores[at.row * TensorQk::kScoreStride + 8 * n + at.column] = s[n][e];
    }
}

// Words lane, lane + 32 of the warp's eight output rows.
template <int kDim>
using LaneOutput = float2[TensorQk::kWarpRows][kDim / 64];

template <class T, int kDim, bool kSkipZeros>
__device__ inline void add_values(LaneOutput<kDim>& acc, const float* probs, const unsigned char* value) {
  const int lane = lane_index();
#pragma unroll 8
  for (int j = 0; j < Quads::kKeys; ++j) {
    unsigned words[kDim / 64];
#pragma unroll
    for (int m = 0; m < kDim / 64; ++m) {
      const int offset = chunk_offset<kDim>(j, lane / 4 + 8 * m) + lane % 4 * 4;
      words[m] = *reinterpret_cast<const unsigned*>(value + offset);
    }
#pragma unroll
    for (int r = 0; r < TensorQk::kWarpRows; ++r) {
      const float prob = probs[r * TensorQk::kScoreStride + j];
#pragma unroll
      for (int m = 0; m < kDim / 64; ++m) {
        const float2 v = tile::unpack<T>(kSkipZeros && prob == 0.0f ? 0u : words[m]);
        acc[r][m] = {fmaf(prob, v.x, acc[r][m].x), fmaf(prob, v.y, acc[r][m].y)};
      }
    }
  }
}

// A row's factor is in its quad.
template <int kDim>
__device__ inline void scale_rows(LaneOutput<kDim>& acc, float factor) {
#pragma unroll
  for (int r = 0; r < TensorQk::kWarpRows; ++r) {
    const float f = __shfl_sync(0xffffffffu, factor, 4 * r);
#pragma unroll
    for (float2& a : acc[r]) a = {a.x * f, a.y * f};
  }
}

template <class T, int kDim>
__device__ inline void write_rows(const QuadBlock<T>& block, int warp_row, LaneOutput<kDim>& acc,
                                  tile::SoftmaxState state) {
  const int lane = lane_index();
  state.sum = tile::quad_sum(state.sum);
  scale_rows<kDim>(acc, tile::inverse_sum(state));
#pragma unroll
  for (int r = 0; r < TensorQk::kWarpRows; ++r) {
    if (!block.exists(warp_row + r)) break;
    auto* const out = reinterpret_cast<unsigned*>(block.output(warp_row + r));
#pragma unroll
    for (int m = 0; m < kDim / 64; ++m) {
      const int word = lane + 32 * m;
      if (2 * word < block.p.sizes.value_dim) out[word] = tile::pack<T>(acc[r][m].x, acc[r][m].y);
    }
  }
  if (quad_part() == 0 && block.exists(quad_row())) block.write_lse(quad_row(), state);
}

template <class T, int kDim>
__global__ void __launch_bounds__(Quads::kThreads, 4) tensor_qk(const __grid_constant__ Params p) {
  using Slots = ChunkSlots<T, kDim, Quads::kThreads, QuadBlock<T>>;
  constexpr int kStride = TensorQk::kScoreStride;
  auto* const scores = reinterpret_cast<float*>(shared_memory + Slots::kEnd);
  const int warp = warp_index();
  const int tile_row = warp % 2 * 16, tile_key = warp / 2 * 16;
  const int warp_row = warp * TensorQk::kWarpRows;
  const unsigned base = ptx::shared_address(shared_memory);

  const QuadBlock<T> block(p);
  tile::SoftmaxState state = tile::empty_softmax();
  LaneOutput<kDim> acc = {};
  Slots::start_query(block);
  Slots::start_tile(block, 0);
  for (int t = 0; t < block.tiles(); ++t) {
    Slots::advance(block, t);
    multiply_one_tile<T, kDim>(scores + tile_row * kStride + tile_key, base + tile_row * kDim * 2,
                               base + Slots::key(t) + tile_key * kDim * 2);
    __syncthreads();  // a row of scores comes from two warps

    float x[Quads::kMyKeys];
    float* const mine = scores + quad_row() * kStride + quad_part();
#pragma unroll
    for (int i = 0; i < Quads::kMyKeys; ++i) x[i] = mine[4 * i];
    quad_scores(x, p.scoring.scale_log2, block.some_hidden(t), block.view.band, block.first_row + quad_row(),
                block.first_key(t) + quad_part());
    scale_rows<kDim>(acc, quad_softmax(x, state));
#pragma unroll
    for (int i = 0; i < Quads::kMyKeys; ++i) mine[4 * i] = x[i];
    const bool zeros = any_zero(x);
    __syncwarp();  // P of a warp's rows comes from that warp alone

    const unsigned char* const value = shared_memory + Slots::value(t);
    if (zeros) {
      add_values<T, kDim, true>(acc, scores + warp_row * kStride, value);
    } else {
      add_values<T, kDim, false>(acc, scores + warp_row * kStride, value);
    }
  }
  ptx::wait_copies<0>();
  write_rows<T, kDim>(QuadBlock<T>(p), warp_row, acc, state);
}

struct TensorQkShape {
  static constexpr int kRows = Quads::kRows, kThreads = Quads::kThreads;
  static constexpr int shared_bytes(int dim) {
    return 5 * Quads::kRows * dim * 2 + Quads::kRows * TensorQk::kScoreStride * 4;  // Q, K and V twice, S
  }
};

}  // namespace tessera::cuda::ladder
