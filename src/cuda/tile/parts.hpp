// A float as three bf16 numbers, so that tensor cores can multiply it with float's accuracy:
//
//   x0 = bf16(x)      x1 = bf16(x - x0)      x2 = bf16(x - x0 - x1)      all rounded to nearest
//
// Both differences are exact, and x0 + x1 + x2 is x, down to where bf16's smallest numbers end (2^-133). Of
// the nine products of two such sums six are taken; the rest is below 2^-24 of the whole. docs/f32.md.
#pragma once

#include "cuda/tile/element.hpp"
#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::tile {

inline constexpr int kParts = 3;

// The six products x_a y_b, the smallest first: tensor cores cut off what lies below the last bit of their
// sum, so small numbers have to be summed before there is a large one.
inline constexpr int kProducts = 6;
struct ProductOfParts {
  int a, b;
};
TESSERA_CONSTEXPR ProductOfParts product_of_parts(int i) {
  constexpr ProductOfParts kOrder[kProducts] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};
  return kOrder[i];
}

// Two numbers, rounded into `word`; returns what is left of them. Of inf that is NaN, and of what rounds to
// inf: then nothing of it stays finite.
__device__ inline float2 take_part(float2 x, unsigned& word) {
  word = pack<__nv_bfloat16>(x.x, x.y);
  return make_float2(x.x - __uint_as_float(word << 16), x.y - __uint_as_float(word & 0xffff0000u));
}

// word[i]: part i of both.
__device__ inline void split(float2 x, unsigned (&word)[kParts]) {
  const float2 rest = take_part(take_part(x, word[0]), word[1]);
  word[2] = pack<__nv_bfloat16>(rest.x, rest.y);
}

// The same; the low half of `lost` stays 0 as long as the parts' sum is exactly what was split. It is not for
// numbers near 0 (below about 2^-110) and those that are not finite.
__device__ inline void split(float2 x, unsigned (&word)[kParts], unsigned& lost) {
  const float2 rest = take_part(take_part(x, word[0]), word[1]);
  word[2] = pack<__nv_bfloat16>(rest.x, rest.y);
  lost |= __float_as_uint(rest.x) | __float_as_uint(rest.y);
}

}  // namespace tessera::cuda::tile
