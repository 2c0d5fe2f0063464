// The vector loops that the peers' softmax and the machine-rate measurements are made of. They are
// compiled for every instruction set and the best one is chosen at run time, so that a peer built on
// OpenBLAS is not held back by a scalar softmax.
#pragma once

#include <cstdint>

namespace tessera::peers::simd {

float row_max(const float* x, std::int64_t n);
// x[i] = exp(x[i] - shift); returns their sum.
float exp_and_sum(float* x, std::int64_t n, float shift);
void multiply(float* x, std::int64_t n, float factor);

// Runs a chain of independent fused multiply-adds; returns the floating-point operations done.
double fma_chain(std::int64_t iterations, float* sink);

// Reads n floats (a multiple of 1024) front to back as 1 or 4 streams side by side; returns their sum.
float read_one_stream(const float* x, std::int64_t n);
float read_four_streams(const float* x, std::int64_t n);

const char* instruction_set();

}  // namespace tessera::peers::simd
