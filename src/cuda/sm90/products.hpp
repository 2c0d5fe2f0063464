// The two products of a tile, handed to the tensor cores; the threads go on while they are computed.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/wgmma.hpp"
#include "cuda/sm90/fragments.hpp"

namespace tessera::cuda::sm90 {

// S = Q K, of 64 query rows and a tile of K.
template <auto C, class T>
__device__ inline void start_scores(Scores<C>& s, const ptx::MatrixDescriptor& query,
                                    const ptx::MatrixDescriptor& key) {
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < C.dim / tile::kDepth<T>; ++k) {
    ptx::Wgmma<T, C.keys>::from_shared(s, query.at(k / 4 * 64 * 128 + k % 4 * 32),
                                       key.at(k / 4 * C.keys * 128 + k % 4 * 32), k > 0);
  }
  ptx::wgmma_commit();
}

// O += P V, or O = P V; of all keys, or of some.
template <auto C, class T, int kFrom = 0, int kTo = C.keys, bool kAdd = true>
__device__ inline void start_output(Output<C>& o, const Probs<C>& probs, const ptx::MatrixDescriptor& value) {
  ptx::wgmma_fence();
#pragma unroll
  for (int k = kFrom / 16; k < kTo / 16; ++k)
    ptx::Wgmma<T, C.value_dim>::from_registers(o, probs[k], value.at(k * 16 * 128), kAdd || k > kFrom / 16);
  ptx::wgmma_commit();
}

// Rows of Q in shared memory, a tile of K or V.
__device__ inline ptx::MatrixDescriptor query_matrix(const char* rows) {
  return {ptx::shared_address(rows), 64 * 128};
}
template <auto C>
__device__ inline ptx::MatrixDescriptor tile_matrix(const char* tile) {
  return {ptx::shared_address(tile), C.keys * 128};
}

}  // namespace tessera::cuda::sm90
