// Rung 7, tensor_pv: the second product goes to the tensor cores too.
//
//   S (f32, shared memory) -- softmax --> P (16 bits, in the same place) -- ldmatrix --------+
//                                                                                            mma.sync --> O
//                                                                                            += P V
//   V (shared memory) -- ldmatrix.trans -----------------------------------------------------+
//
// Strips, softmax and slots are those of rung 6 (strips.hpp). O stays in fragments from the first tile to the
// last. A matrix product cannot skip a key: a hidden one with NaN in its value row leaves NaN behind (0 *
// NaN), so rows that end as NaN though their sum did not are computed again, carefully.
#pragma once

#include "cuda/ladder/strips.hpp"
#include "cuda/tile/careful.hpp"

namespace tessera::cuda::ladder {

// Fragments of the warp's 16 rows: rows lane / 4 (elements 0, 1) and lane / 4 + 8 (elements 2, 3).
template <int kDim>
using FragmentOutput = float[kDim / 8][4];

// A row's factor is in its two lanes.
template <int kDim>
__device__ inline void scale_fragments(FragmentOutput<kDim>& o, float factor) {
  const int lane = lane_index();
  const float upper = __shfl_sync(0xffffffffu, factor, 2 * (lane / 4));
  const float lower = __shfl_sync(0xffffffffu, factor, 2 * (lane / 4 + 8));
#pragma unroll
  for (auto& fragment : o) {
    fragment[0] *= upper;
    fragment[1] *= upper;
    fragment[2] *= lower;
    fragment[3] *= lower;
  }
}

// The lane's half row of P, rounded, into the warp's tile of P: 8 bytes of every chunk.
template <class T, int kDim>
__device__ inline void store_probs(const float (&x)[Strip<kDim>::kMyKeys]) {
  auto* const probs = reinterpret_cast<unsigned char*>(warp_scores<kDim>());
#pragma unroll
  for (int i = 0; i < Strip<kDim>::kMyKeys / 4; ++i) {
    auto* const to = probs + chunk_offset<Strip<kDim>::kKeys>(strip_row(), i) + 8 * strip_half();
    *reinterpret_cast<uint2*>(to) =
        make_uint2(tile::pack<T>(x[4 * i], x[4 * i + 1]), tile::pack<T>(x[4 * i + 2], x[4 * i + 3]));
  }
}

template <class T, int kDim>
__device__ inline void multiply_values(FragmentOutput<kDim>& o, unsigned value) {
  constexpr int kKeys = Strip<kDim>::kKeys;
  const int lane = lane_index();
  const unsigned probs = ptx::shared_address(warp_scores<kDim>());
  const LaneAddress<kKeys> probs_at(tile::ldmatrix_a(lane));
  const LaneAddress<kDim> value_at(tile::ldmatrix_b_transposed(lane));
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    unsigned a[4];
    ptx::load_matrix_x4(a, probs_at(probs, 0, k));
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      unsigned b[4];
      ptx::load_matrix_x4_transposed(b, value_at(value, 16 * k, n));
      ptx::mma_f32<T>(o[2 * n], a, b[0], b[1]);
      ptx::mma_f32<T>(o[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// Rounds the finished O into the warp's own rows of the query tile, which it needs no more, so that every
// store to global memory is 16 bytes of a row. Returns a bit for every row to be computed again.
template <class T, int kDim>
__device__ inline unsigned stage_output(const StripBlock<T, kDim>& block, const FragmentOutput<kDim>& o,
                                        float sum) {
  unsigned char* const staged = shared_memory + warp_row<kDim>() * kDim * 2;
  const int lane = lane_index();
  unsigned suspects = 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = lane / 4 + 8 * h;
    float check = 0.0f;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const float x = o[n][2 * h], y = o[n][2 * h + 1];
      check = fmaf(x, 0.0f, fmaf(y, 0.0f, check));  // NaN where x or y is not finite
      *reinterpret_cast<unsigned*>(staged + chunk_offset<kDim>(row, n) + lane % 4 * 4) = tile::pack<T>(x, y);
    }
    const float row_sum = __shfl_sync(0xffffffffu, sum, 2 * row);
    const unsigned ballot = __ballot_sync(
        0xffffffffu, check != check && row_sum == row_sum && block.exists(warp_row<kDim>() + row));
#pragma unroll
    for (int g = 0; g < 8; ++g) {
      if ((ballot >> (4 * g) & 15u) != 0) suspects |= 1u << (8 * h + g);
    }
  }
  __syncwarp();
  return suspects;
}

template <class T, int kDim>
__device__ inline void write_fragments(const StripBlock<T, kDim>& block, FragmentOutput<kDim>& o,
                                       tile::SoftmaxState state) {
  const int lane = lane_index(), first_row = warp_row<kDim>();
  state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 1);
  scale_fragments<kDim>(o, tile::inverse_sum(state));
  unsigned suspects = stage_output<T, kDim>(block, o, state.sum);
  const unsigned char* const staged = shared_memory + first_row * kDim * 2;
#pragma unroll 4
  for (int n = lane; n < Strip<kDim>::kWarpRows * (kDim / 8); n += 32) {
    const int out_row = n / (kDim / 8), chunk = n % (kDim / 8);
    if (!block.exists(first_row + out_row) || chunk * 8 >= block.p.sizes.value_dim) continue;
    *reinterpret_cast<uint4*>(block.output(first_row + out_row) + chunk * 8) =
        *reinterpret_cast<const uint4*>(staged + chunk_offset<kDim>(out_row, chunk));
  }
  const int row = first_row + strip_row();
  if (strip_half() == 0 && block.exists(row)) block.write_lse(row, state);
  __syncwarp();
  const int first = block.first_row + first_row;
  for (; suspects != 0; suspects &= suspects - 1) {
    tile::careful_row<T>(block.p, ptx::block_z(), ptx::block_y(),
                         first + __ffs(static_cast<int>(suspects)) - 1);
  }
}

template <class T, int kDim>
__global__ void __launch_bounds__(Strip<kDim>::kThreads, 4) tensor_pv(const __grid_constant__ Params p) {
  using S = Strip<kDim>;
  using Slots = ChunkSlots<T, kDim, S::kThreads, StripBlock<T, kDim>>;
  static_assert(Slots::kEnd == S::kScores && S::kWarpRows * S::kScoreStride * 4 % 128 == 0,
                "P needs 128 bytes");
  tile::SoftmaxState state = tile::empty_softmax();
  FragmentOutput<kDim> o = {};
  const StripBlock<T, kDim> block(p);
  Slots::start_query(block);
  Slots::start_tile(block, 0);
  for (int t = 0; t < block.tiles(); ++t) {
    Slots::advance(block, t);
    multiply_strip<T, kDim, false>(ptx::shared_address(shared_memory) + Slots::key(t));
    __syncwarp();
    float x[S::kMyKeys];
    scale_fragments<kDim>(o, strip_softmax<T, kDim>(x, block, t, state));
    __syncwarp();  // P takes the place of S
    store_probs<T, kDim>(x);
    __syncwarp();
    multiply_values<T, kDim>(o, ptx::shared_address(shared_memory) + Slots::value(t));
  }
  ptx::wait_copies<0>();
  __syncthreads();  // without a tile, others' copies of the query may still be on their way
  write_fragments<T, kDim>(StripBlock<T, kDim>(p), o, state);
}

}  // namespace tessera::cuda::ladder
