// The running state of one row's softmax. Scores are taken times log2(e), so that exp2 alone does. Exponents
// are taken against the running row max, which may lag a little behind the largest score so far. A row that
// has seen nothing has the lowest finite row max, not -inf: (-inf) - (-inf) would be NaN, while every
// exp2(-inf - row_max) is the 0 that it should be.
#pragma once

#include "cuda/ptx/math.hpp"
#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::tile {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

TESSERA_HOST_DEVICE float minus_infinity() { return -__builtin_bit_cast(float, 0x7f800000u); }

inline constexpr float kLowest = -3.402823466e38f;

// sm90, and sm80 where it is lazy, take exponents against a row max that hardly ever moves: that of the first
// tile that a row meets. Later tiles take no maximum, which would be about a quarter of the softmax. The sum
// of a thread's P in a row of a tile tells when they grew so far above 1 that they might leave the range of
// f16: past this, the row starts over from the largest score there is now.
inline constexpr float kMostSum = 4096.0f;

// Scores times a factor are exponents of 2, and so is the row max. P is exp2(fmaf(score, factor, -row_max)):
// that product is not rounded, but the row max is. What it is off by is the same for all scores of a row and
// does no harm, unless it is more powers of two than P can hold. A mask tensor can bring that about: with
// -1e9 added to every score of a row, it is 2^60. So where there may be one, a row whose row max is far out
// has a power of two for its factor, with which nothing is rounded. That makes its row max one of another
// unit, until the row ends, and differences of its scores up to twice as large; but neighbouring numbers are
// 8 or more powers of two apart there.
struct MaskedFactor {
  float usual;

  TESSERA_HOST_DEVICE float far_out() const {  // the next power of two
    return __builtin_bit_cast(float, (__builtin_bit_cast(unsigned, usual) + 0x7fffffu) & 0xff800000u);
  }
  TESSERA_HOST_DEVICE float usual_part() const {  // usual / far_out(): one is divided by a power of two
    return usual * __builtin_bit_cast(float, 0x7f000000u - __builtin_bit_cast(unsigned, far_out()));
  }
};
inline constexpr float kFarOut = 0x1p27f;
TESSERA_HOST_DEVICE bool is_far_out(float row_max) { return !(row_max < kFarOut && row_max > -kFarOut); }

// What the scores of a row are multiplied by; the row max that a score makes; and that in the usual unit.
TESSERA_HOST_DEVICE float factor_of(float factor, float) { return factor; }
TESSERA_HOST_DEVICE float factor_of(MaskedFactor factor, float row_max) {
  return is_far_out(row_max) ? factor.far_out() : factor.usual;
}
// What the scores of a thread's rows are multiplied by to be exponents of 2.
struct RowFactors {
  float of[2];
};

TESSERA_HOST_DEVICE float row_max_of(float factor, float largest) { return largest * factor; }
TESSERA_HOST_DEVICE float row_max_of(MaskedFactor factor, float largest) {
  return largest * factor_of(factor, largest * factor.usual);
}
TESSERA_HOST_DEVICE float usual_row_max(MaskedFactor factor, float row_max) {
  return is_far_out(row_max) ? row_max * factor.usual_part() : row_max;
}

struct SoftmaxState {
  float row_max;
  float sum;
};

TESSERA_HOST_DEVICE SoftmaxState empty_softmax() { return {kLowest, 0.0f}; }

// Takes in a new largest score; returns the factor by which what was summed so far must shrink.
TESSERA_HOST_DEVICE float raise_row_max(SoftmaxState& state, float largest) {
  if (!(largest > state.row_max)) return 1.0f;
  const float factor = ptx::exp2_approx(state.row_max - largest);
  state = {largest, state.sum * factor};
  return factor;
}

// Two partial results of one row: the factors for the two accumulators.
struct MergeFactors {
  float first, second;
};
TESSERA_HOST_DEVICE MergeFactors merge(SoftmaxState& into, const SoftmaxState& other) {
  const float row_max = into.row_max > other.row_max ? into.row_max : other.row_max;
  const MergeFactors f = {ptx::exp2_approx(into.row_max - row_max),
                          ptx::exp2_approx(other.row_max - row_max)};
  into = {row_max, into.sum * f.first + other.sum * f.second};
  return f;
}

// A sink is one more score without a value row: it joins the sum alone. Takes the natural-log score.
TESSERA_HOST_DEVICE float add_sink(SoftmaxState& state, float sink) {
  const float score = sink * kLog2E;
  if (score == minus_infinity()) return 1.0f;
  const float factor = raise_row_max(state, score);
  state.sum += ptx::exp2_approx(score - state.row_max);
  return factor;
}

TESSERA_HOST_DEVICE float inverse_sum(const SoftmaxState& state) {
  return state.sum == 0.0f ? 0.0f : 1.0f / state.sum;
}

// The same to the last bit but one, without the steps that division takes for the last.
TESSERA_HOST_DEVICE float fast_inverse_sum(const SoftmaxState& state) {
  return state.sum == 0.0f ? 0.0f : ptx::inverse_approx(state.sum);
}

// Natural logarithm; -inf where nothing was seen.
TESSERA_HOST_DEVICE float log_sum_exp(const SoftmaxState& state) {
#if defined(__CUDACC__)
  return (state.row_max + log2f(state.sum)) * kLn2;
#else
  return (state.row_max + __builtin_log2f(state.sum)) * kLn2;
#endif
}

}  // namespace tessera::cuda::tile
