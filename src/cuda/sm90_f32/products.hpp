// The two products of a tile, each as six products of parts, handed to the tensor cores; the threads go on
// while they are computed.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/matrix.hpp"
#include "cuda/ptx/registers.hpp"
#include "cuda/ptx/wgmma.hpp"
#include "cuda/sm90_f32/config.hpp"
#include "cuda/tile/accumulator.hpp"
#include "cuda/tile/fragments.hpp"
#include "cuda/tile/parts.hpp"

namespace tessera::cuda::sm90_f32 {

// What a thread holds of a tile; see tile/accumulator.hpp for which elements.
template <Config C>
struct Fragments {  // NVRTC takes them as parameters of functions only by way of a class
  using Scores = tile::Accumulator<C.keys>;
  using Query = unsigned[C.held > 0 ? C.held : 1][C.dim / 16][4];  // parts as A operands
  using Probs = unsigned[tile::kParts][C.keys / 16][4];
  using Output = float[C.value_blocks()][8][4];  // by blocks of 64 columns
};
template <Config C>
using Scores = typename Fragments<C>::Scores;
template <Config C>
using Query = typename Fragments<C>::Query;
template <Config C>
using Probs = typename Fragments<C>::Probs;
template <Config C>
using Output = typename Fragments<C>::Output;
using OutputBlock = tile::Accumulator<64>;

// The parts of Q that are held in registers; rows: 64 of the warpgroup, in shared memory.
template <Config C>
__device__ inline void hold_query(Query<C>& held, const char* rows) {
  const int lane = ptx::thread_x() % 32;
  const tile::FragmentIndex at = tile::ldmatrix_a(lane);
  const unsigned row = ptx::shared_address(rows) + (ptx::thread_x() % 128 / 32 * 16 + at.row) * 128;
#pragma unroll
  for (int part = 0; part < C.held; ++part)
#pragma unroll
    for (int k = 0; k < C.dim / 16; ++k)
      ptx::load_matrix_x4(held[part][k], row + part * C.query_part() + k / 4 * (64 * 128) +
                                             ((k % 4 * 2 + at.column) ^ (at.row & 7)) * 16);
}

// S = Q K, of 64 query rows and a tile of K. query: where the parts are that are not held.
template <Config C>
__device__ inline void start_scores(Scores<C>& s, const Query<C>& held, const ptx::MatrixDescriptor& query,
                                    const ptx::MatrixDescriptor& key) {
  using Product = ptx::Wgmma<__nv_bfloat16, C.keys>;
  ptx::wgmma_fence();
#pragma unroll
  for (int i = 0; i < tile::kProducts; ++i) {
    const tile::ProductOfParts of = tile::product_of_parts(i);
#pragma unroll
    for (int k = 0; k < C.dim / 16; ++k) {
      const unsigned long long b = key.at(of.b * C.key_part() + k / 4 * C.keys * 128 + k % 4 * 32);
      if (of.a < C.held) {
        Product::rows_from_registers(s, held[of.a][k], b, i + k > 0);
      } else {
        Product::from_shared(s, query.at(of.a * C.query_part() + k / 4 * 64 * 128 + k % 4 * 32), b,
                             i + k > 0);
      }
    }
  }
  ptx::wgmma_commit();
}

// P V, of one block of V's columns, from zero: tensor cores cut off what lies below the last bit of a sum, so
// those of tiles are added up by the threads.
template <Config C>
__device__ inline void start_output(OutputBlock& o, const Probs<C>& probs,
                                    const ptx::MatrixDescriptor& value) {
  ptx::wgmma_fence();
#pragma unroll
  for (int i = 0; i < tile::kProducts; ++i) {
    const tile::ProductOfParts of = tile::product_of_parts(i);
#pragma unroll
    for (int k = 0; k < C.keys / 16; ++k)
      ptx::Wgmma<__nv_bfloat16, 64>::from_registers(
          o, probs[of.a][k], value.at(of.b * C.value_part() + k * 16 * 128), i + k > 0);
  }
  ptx::wgmma_commit();
}

__device__ inline ptx::MatrixDescriptor matrix_at(const char* rows) {
  // Worked out anew each time: there are no registers for what could be kept. Of the second number no use is
  // made, because blocks are named one by one.
  return {ptx::opaque(ptx::shared_address(rows)), 64 * 128};
}

}  // namespace tessera::cuda::sm90_f32
