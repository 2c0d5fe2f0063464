// The running state of one row's softmax. Scores are taken times log2(e), so that exp2 alone does.
// `reference` is what exponents are taken against: the largest score so far, or one not far below it. A row
// that has seen nothing has the lowest finite reference, not -inf: (-inf) - (-inf) would be NaN, while every
// exp2(-inf - reference) is the 0 that it should be.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::tile {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

TESSERA_HOST_DEVICE float minus_infinity() { return -__builtin_huge_valf(); }

inline constexpr float kLowest = -3.402823466e38f;

// 2^x by the special-function unit. Results under 2^-126 are 0: no weight that small can be seen.
TESSERA_HOST_DEVICE float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return __builtin_exp2f(x);
#endif
}

// 1 / x by the special-function unit; x is a sum of weights, so neither tiny nor huge.
TESSERA_HOST_DEVICE float fast_inverse(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

// sm90, and sm80 where it is lazy, take exponents against a reference that hardly ever moves: the largest
// score of the first tile that a row meets. Later tiles take no maximum, which would be about a quarter of
// the softmax. The sum of a thread's weights in a row of a tile tells when they grew so far above 1 that they
// might leave the range of f16: past this, the row starts over from the largest score there is now.
inline constexpr float kMostSum = 4096.0f;

struct SoftmaxState {
  float reference;
  float sum;
};

TESSERA_HOST_DEVICE SoftmaxState empty_softmax() { return {kLowest, 0.0f}; }

// Takes in a new largest score; returns the factor by which what was summed so far must shrink.
TESSERA_HOST_DEVICE float raise_reference(SoftmaxState& state, float largest) {
  if (!(largest > state.reference)) return 1.0f;
  const float factor = fast_exp2(state.reference - largest);
  state = {largest, state.sum * factor};
  return factor;
}

// Two partial results of one row: the factors for the two accumulators.
struct MergeFactors {
  float first, second;
};
TESSERA_HOST_DEVICE MergeFactors merge(SoftmaxState& into, const SoftmaxState& other) {
  const float reference = into.reference > other.reference ? into.reference : other.reference;
  const MergeFactors f = {fast_exp2(into.reference - reference), fast_exp2(other.reference - reference)};
  into = {reference, into.sum * f.first + other.sum * f.second};
  return f;
}

// A sink is one more score without a value row: it joins the sum alone. Takes the natural-log score.
TESSERA_HOST_DEVICE float add_sink(SoftmaxState& state, float sink) {
  const float score = sink * kLog2E;
  if (score == minus_infinity()) return 1.0f;
  const float factor = raise_reference(state, score);
  state.sum += fast_exp2(score - state.reference);
  return factor;
}

TESSERA_HOST_DEVICE float inverse_sum(const SoftmaxState& state) {
  return state.sum == 0.0f ? 0.0f : 1.0f / state.sum;
}

// The same to the last bit but one, without the steps that division takes for the last.
TESSERA_HOST_DEVICE float fast_inverse_sum(const SoftmaxState& state) {
  return state.sum == 0.0f ? 0.0f : fast_inverse(state.sum);
}

// Natural logarithm; -inf where nothing was seen.
TESSERA_HOST_DEVICE float log_sum_exp(const SoftmaxState& state) {
  return (state.reference + __builtin_log2f(state.sum)) * kLn2;
}

}  // namespace tessera::cuda::tile
