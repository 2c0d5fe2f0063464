// Q of bf16 as f16, for products with codes, which f16 holds all: a row once a power of two has brought its
// largest element near f16's largest; unless others are 2^30 times smaller. Such a row, and one that holds
// inf or NaN, becomes NaN, and is computed again with plain arithmetic as any row is that comes out so.
#pragma once

#include "cuda/tile/element.hpp"

namespace tessera::cuda::tile {

inline constexpr unsigned kNanPair = 0x7fff7fffu;  // of f16

// The largest exponent of |x| that four lanes have of a row, as f32 has it in its bits.
__device__ inline unsigned quad_exponent(float largest) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  return __float_as_uint(largest) >> 23;
}

// Elements of bf16 in q become f16 of the row divided by what is returned.
template <int kSteps>
__device__ inline float narrow_range(unsigned (&q)[kSteps][2]) {
  float largest = 0.0f;
  bool finite = true;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 x = unpack<__nv_bfloat16>(q[k][i]);
      const float size = fmaxf(fabsf(x.x), fabsf(x.y));
      finite &= x.x - x.x == 0.0f && x.y - x.y == 0.0f;
      largest = fmaxf(largest, size);
    }
  // 2^14 or more, and less than 2^15; both powers of two have to be normal.
  const unsigned exponent = max(min(quad_exponent(largest), 254u), 16u);
  const float up = __uint_as_float((268u - exponent) << 23), down = __uint_as_float((exponent - 14u) << 23);
  bool exact = finite;
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 x = unpack<__nv_bfloat16>(q[k][i]);
      q[k][i] = pack<__half>(x.x * up, x.y * up);
      const float2 back = unpack<__half>(q[k][i]);
      exact &= back.x == x.x * up && back.y == x.y * up;
    }
  const unsigned lane = threadIdx.x % 32, all_four = 15u << (lane & ~3u);
  if ((__ballot_sync(0xffffffffu, exact) & all_four) != all_four) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) q[k][0] = q[k][1] = kNanPair;
  }
  return down;
}

}  // namespace tessera::cuda::tile
