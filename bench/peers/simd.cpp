// See simd.hpp. Highway compiles the part between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE once
// per instruction set; the part under HWY_ONCE picks one at run time.
#include "simd.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peers/simd.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>
// After highway.h:
#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::peers::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;

float RowMax(const float* x, std::int64_t n) {
  const Full d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -INFINITY);
  auto m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  float best = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

float ExpAndSum(float* x, std::int64_t n, float shift) {
  const Full d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto offset = hn::Set(d, shift);
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e0 = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i), offset));
    const auto e1 = hn::Exp(d, hn::Sub(hn::LoadU(d, x + i + lanes), offset));
    hn::StoreU(e0, d, x + i);
    hn::StoreU(e1, d, x + i + lanes);
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  for (; i < n; ++i) {
    x[i] = std::exp(x[i] - shift);
    sum += x[i];
  }
  return sum;
}

void Multiply(float* x, std::int64_t n, float factor) {
  const Full d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, x + i);
  for (; i < n; ++i) x[i] *= factor;
}

const char* InstructionSet() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tessera::peers::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::peers::simd {

HWY_EXPORT(RowMax);
HWY_EXPORT(ExpAndSum);
HWY_EXPORT(Multiply);
HWY_EXPORT(InstructionSet);

float row_max(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(RowMax)(x, n); }
float exp_and_sum(float* x, std::int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExpAndSum)(x, n, shift);
}
void multiply(float* x, std::int64_t n, float factor) { HWY_DYNAMIC_DISPATCH(Multiply)(x, n, factor); }
const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(InstructionSet)(); }

}  // namespace tessera::peers::simd
#endif
