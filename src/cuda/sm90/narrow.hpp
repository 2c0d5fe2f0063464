// Q of bf16 beside K of 8 bits: a consumer makes its rows f16 in shared memory before it multiplies.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/sm90/consumer.hpp"
#include "cuda/tile/narrow_query.hpp"

namespace tessera::cuda::sm90 {

// Four threads share a row, as in accumulators; each has every fourth chunk of 16 bytes. Returns what makes
// exponents of the scores of the thread's rows.
template <Config C>
__device__ inline tile::RowFactors narrow_query(char* query, int warpgroup, float factor) {
  const int lane = ptx::thread_x() % 32, first_row = ptx::thread_x() % 128 / 32 * 16 + lane / 4;
  const unsigned rows = ptx::shared_address(query) + first_row * 128;
  tile::RowFactors factors = {};
#pragma unroll 1
  for (int r = 0; r < 2; ++r) {
    const auto chunk_at = [&](int i) {
      const int chunk = lane % 4 + 4 * i;
      return rows + (chunk / 8 * 64 + 8 * r) * 128 + (chunk % 8 ^ first_row % 8) * 16;
    };
    unsigned words[C.dim / 16][2];
#pragma unroll
    for (int i = 0; i < C.dim / 32; ++i) {
      const uint4 chunk = ptx::load_shared_16(chunk_at(i));
      words[2 * i][0] = chunk.x, words[2 * i][1] = chunk.y;
      words[2 * i + 1][0] = chunk.z, words[2 * i + 1][1] = chunk.w;
    }
    factors.of[0] = factors.of[1];  // no index: they are registers
    factors.of[1] = factor * tile::narrow_range(words);
#pragma unroll
    for (int i = 0; i < C.dim / 32; ++i)
      ptx::store_shared_16(chunk_at(i), make_uint4(words[2 * i][0], words[2 * i][1], words[2 * i + 1][0],
                                                   words[2 * i + 1][1]));
  }
  ptx::fence_for_tensor_cores();
  ptx::named_sync(kQueryOf + warpgroup, 128);
  return factors;
}

}  // namespace tessera::cuda::sm90
