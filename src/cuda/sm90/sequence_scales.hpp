// Scales that are one number for a sequence; of V, or one for each column, which go into O.
#pragma once

#include "cuda/coded.hpp"
#include "cuda/sm90/params.hpp"

namespace tessera::cuda::sm90 {

// What scores are multiplied by to be exponents of 2: not too small, and NaN instead of below 0.
__device__ inline float exponent_factor(float factor) {
  return factor < 0.0f ? __uint_as_float(0x7fffffffu) : factor < 0x1p-100f ? 0x1p-100f : factor;
}

// What V's scales make of a thread's columns 8 n and 8 n + 1.
struct ValueScales {
  const Scales& scales;
  const float* first;  // of column 0
  int columns, lane;

  __device__ ValueScales(const Sm90Params& p, const Scales& of, const TileIndex& at, int of_lane)
      : scales(of),
        first(scales.data + scales.at(at.batch, p.group.divide(at.head), 0)),
        columns(p.problem.sizes.value_dim),
        lane(of_lane) {}
  __device__ float all() const { return scales.data == nullptr || scales.channel != 0 ? 1.0f : *first; }
  __device__ float2 of(int n) const {
    float2 x = make_float2(1.0f, 1.0f);
    if (scales.channel == 0) return x;
    const int column = 8 * n + 2 * (lane % 4);
    if (column < columns) x.x = first[column * scales.channel];
    if (column + 1 < columns) x.y = first[(column + 1) * scales.channel];
    return x;
  }
};

}  // namespace tessera::cuda::sm90
