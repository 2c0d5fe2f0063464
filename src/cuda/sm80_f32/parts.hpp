// A float as the sum of three bf16 numbers, x = x0 + x1 + x2, each the rest rounded to nearest: 8 bits and 8
// bits and the last 8. The sum is exact while x2 is no smaller than bf16 can be, so for |x| >= 2^-110.
//
// x y is then the sum of nine products, of which six count; what is left out is 2^-24 of x y at most:
//
//            y0     y1     y2
//      x0     1    2^-8   2^-16
//      x1   2^-8   2^-16    .
//      x2   2^-16    .      .
//
// inf, NaN and what is too large for bf16 have parts that are NaN or cancel to NaN: their rows come out NaN
// and are computed again (epilogue.hpp). Numbers so small that their last part is lost are noted (Seen).
#pragma once

#include "cuda/tile/element.hpp"
#include "cuda/tile/parts.hpp"

namespace tessera::cuda::sm80_f32 {

using Part = __nv_bfloat16;
using tile::kParts;

// Two neighbours, as words of two bf16 each.
__device__ inline void split(float low, float high, unsigned (&parts)[kParts]) {
  tile::split(make_float2(low, high), parts);
}

// Of numbers or products smaller than this, parts may be lost, 2^-134 at most. That is nothing beside an
// output that is not as small itself, and beside a score unless the other factor is huge.
inline constexpr float kTiny = 0x1p-80f, kHuge = 0x1p+64f;

// What a thread has met on the way to shared memory.
struct Seen {
  unsigned smallest = ~0u;  // the least of 2 * bits - 1, which 0 does not make small
  float largest = 0.0f;

  __device__ void look_at(float x) { smallest = min(smallest, 2 * __float_as_uint(x) - 1); }
  __device__ void look_at_both_ends(float x) {
    look_at(x);
    largest = fmaxf(largest, fabsf(x));
  }
  __device__ bool tiny() const { return smallest < 2 * __float_as_uint(kTiny) - 1; }
  __device__ bool huge() const { return largest >= kHuge; }
};

}  // namespace tessera::cuda::sm80_f32
