// The vector loops that the peers' softmax is made of. They are compiled for every instruction set and the
// best one is chosen at run time, so that a peer built on OpenBLAS is not held back by a scalar softmax.
#pragma once

#include <cstdint>

namespace tessera::peers::simd {

float row_max(const float* x, std::int64_t n);
// x[i] = exp(x[i] - shift); returns their sum.
float exp_and_sum(float* x, std::int64_t n, float shift);
void multiply(float* x, std::int64_t n, float factor);

const char* instruction_set();

}  // namespace tessera::peers::simd
