// The two products of a tile, handed to the tensor cores; the threads go on while they are computed.
#pragma once

#include "cuda/ptx/wgmma.hpp"
#include "cuda/sm90/softmax.hpp"

namespace tessera::cuda::sm90 {

// S = Q K: addresses in shared memory of 64 query rows and of a tile of K.
template <Config C, class T>
__device__ inline void start_scores(Scores<C>& s, unsigned query, unsigned key) {
  const ptx::MatrixDescriptor a(query, 64 * 128), b(key, C.keys * 128);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < C.dim / 16; ++k) {
    ptx::Wgmma<T, C.keys>::from_shared(s, a.at(k / 4 * 64 * 128 + k % 4 * 32),
                                       b.at(k / 4 * C.keys * 128 + k % 4 * 32), k > 0);
  }
  ptx::wgmma_commit();
}

// O += P V, or O = P V; of all keys, or of some.
template <Config C, class T, int kFrom = 0, int kTo = C.keys, bool kAdd = true>
__device__ inline void start_output(Output<C>& o, const Weights<C>& w, unsigned value) {
  const ptx::MatrixDescriptor b(value, C.keys * 128);
  ptx::wgmma_fence();
#pragma unroll
  for (int k = kFrom / 16; k < kTo / 16; ++k)
    ptx::Wgmma<T, C.value_dim>::from_registers(o, w[k], b.at(k * 16 * 128), kAdd || k > kFrom / 16);
  ptx::wgmma_commit();
}

}  // namespace tessera::cuda::sm90
