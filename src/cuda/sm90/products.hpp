// The two products of a tile, handed to the tensor cores; the threads go on while they are computed.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/wgmma.hpp"
#include "cuda/sm90/fragments.hpp"

namespace tessera::cuda::sm90 {

// What Q and K are of, in a kernel whose P and V are of T; sm90_fp8/coded.hpp has those of 8 bits.
template <Codes kCodes, class T>
struct KeyElement {
  using Type = T;
};

// S = Q K, of 64 query rows and a tile of K.
template <auto C, class T>
__device__ inline void start_scores(Scores<C>& s, const ptx::MatrixDescriptor& query,
                                    const ptx::MatrixDescriptor& key) {
  using Key = typename KeyElement<C.codes, T>::Type;
  ptx::wgmma_fence();
#pragma unroll
  for (int k = 0; k < C.dim / tile::kDepth<Key>; ++k) {
    const unsigned in_query = k / 4 * 64 * 128 + k % 4 * 32, in_key = k / 4 * C.keys * 128 + k % 4 * 32;
    const bool in_strips = C.strips && k == C.dim / 16 - 1;
    ptx::Wgmma<Key, C.keys>::from_shared(
        s, in_strips ? query.strips_at(in_query, 64 * 16, 128) : query.at(in_query),
        in_strips ? key.strips_at(in_key, C.keys * 16, 128) : key.at(in_key), k > 0);
  }
  ptx::wgmma_commit();
}

// A block of 512 threads starts with 128 registers each, and no instruction may have more (ptxas), whatever
// the warpgroup has taken since.
template <auto C>
inline constexpr bool kInHalves = C.threads() > 384 && C.value_dim > 128;

// O += P V, or O = P V; of all keys, or of some.
template <auto C, class T, int kFrom = 0, int kTo = C.keys, bool kAdd = true>
__device__ inline void start_output(Output<C>& o, const Probs<C>& probs, const ptx::MatrixDescriptor& value) {
  ptx::wgmma_fence();
#pragma unroll
  for (int k = kFrom / 16; k < kTo / 16; ++k) {
    const bool add = kAdd || k > kFrom / 16;
    if constexpr (C.strips) {
      constexpr int kFirst = C.value_dim - 16;  // columns that are not in strips
      ptx::Wgmma<T, kFirst>::from_registers(reinterpret_cast<float(&)[kFirst / 8][4]>(o), probs[k],
                                            value.at(k * 16 * 128), add);
      ptx::Wgmma<T, 16>::from_registers(
          reinterpret_cast<float(&)[2][4]>(o[kFirst / 8]), probs[k],
          value.strips_at(C.value_blocks() * C.keys * 128 + k * 16 * 16, 128, C.keys * 16), add);
    } else if constexpr (kInHalves<C>) {
      constexpr int kHalf = C.value_dim / 2;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        ptx::Wgmma<T, kHalf>::from_registers(reinterpret_cast<float(&)[kHalf / 8][4]>(o[half * kHalf / 8]),
                                             probs[k],
                                             value.at(half * kHalf / 64 * C.keys * 128 + k * 16 * 128), add);
    } else {
      ptx::Wgmma<T, C.value_dim>::from_registers(o, probs[k], value.at(k * 16 * 128), add);
    }
  }
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
