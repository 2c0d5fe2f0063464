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

// Twelve chains: two FMA units with a latency of four to five cycles need eight to ten, and twelve
// with two constants still fit sixteen registers.
double FmaChain(std::int64_t iterations, float* sink) {
  const Full d;
  const auto a = hn::Set(d, 0.999f + *sink * 1e-9f);
  const auto b = hn::Set(d, 1e-3f);
  // Twelve different beginnings: chains that begin alike are merged by the compiler into one.
  const auto start = [&](float i) HWY_ATTR { return hn::Set(d, i * *sink); };
  auto x0 = start(1), x1 = start(2), x2 = start(3), x3 = start(4), x4 = start(5), x5 = start(6);
  auto y0 = start(7), y1 = start(8), y2 = start(9), y3 = start(10), y4 = start(11), y5 = start(12);
  for (std::int64_t i = 0; i < iterations; ++i) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    y0 = hn::MulAdd(y0, a, b);
    y1 = hn::MulAdd(y1, a, b);
    y2 = hn::MulAdd(y2, a, b);
    y3 = hn::MulAdd(y3, a, b);
    y4 = hn::MulAdd(y4, a, b);
    y5 = hn::MulAdd(y5, a, b);
  }
  const auto x = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  const auto y = hn::Add(hn::Add(hn::Add(y0, y1), hn::Add(y2, y3)), hn::Add(y4, y5));
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(x, y)));
  return static_cast<double>(iterations) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

float ReadOneStream(const float* x, std::int64_t n) {
  const Full d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (std::int64_t i = 0; i < n; i += 8 * lanes) {
    s0 = hn::Add(s0, hn::Load(d, x + i));
    s1 = hn::Add(s1, hn::Load(d, x + i + lanes));
    s2 = hn::Add(s2, hn::Load(d, x + i + 2 * lanes));
    s3 = hn::Add(s3, hn::Load(d, x + i + 3 * lanes));
    s4 = hn::Add(s4, hn::Load(d, x + i + 4 * lanes));
    s5 = hn::Add(s5, hn::Load(d, x + i + 5 * lanes));
    s6 = hn::Add(s6, hn::Load(d, x + i + 6 * lanes));
    s7 = hn::Add(s7, hn::Load(d, x + i + 7 * lanes));
  }
  const auto s =
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(d, s));
}

// Four places at once keep four hardware prefetchers and four open DRAM pages busy.
float ReadFourStreams(const float* x, std::int64_t n) {
  const Full d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t quarter = n / 4;
  const float* p0 = x;
  const float* p1 = x + quarter;
  const float* p2 = x + 2 * quarter;
  const float* p3 = x + 3 * quarter;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  for (std::int64_t i = 0; i < quarter; i += 2 * lanes) {
    s0 = hn::Add(s0, hn::Load(d, p0 + i));
    s1 = hn::Add(s1, hn::Load(d, p0 + i + lanes));
    s2 = hn::Add(s2, hn::Load(d, p1 + i));
    s3 = hn::Add(s3, hn::Load(d, p1 + i + lanes));
    s4 = hn::Add(s4, hn::Load(d, p2 + i));
    s5 = hn::Add(s5, hn::Load(d, p2 + i + lanes));
    s6 = hn::Add(s6, hn::Load(d, p3 + i));
    s7 = hn::Add(s7, hn::Load(d, p3 + i + lanes));
  }
  const auto s =
      hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(d, s));
}

const char* InstructionSet() { return hwy::TargetName(HWY_TARGET); }

}  // namespace tessera::peers::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::peers::simd {

HWY_EXPORT(RowMax);
HWY_EXPORT(ExpAndSum);
HWY_EXPORT(Multiply);
HWY_EXPORT(FmaChain);
HWY_EXPORT(ReadOneStream);
HWY_EXPORT(ReadFourStreams);
HWY_EXPORT(InstructionSet);

float row_max(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(RowMax)(x, n); }
float exp_and_sum(float* x, std::int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExpAndSum)(x, n, shift);
}
void multiply(float* x, std::int64_t n, float factor) { HWY_DYNAMIC_DISPATCH(Multiply)(x, n, factor); }
double fma_chain(std::int64_t iterations, float* sink) {
  return HWY_DYNAMIC_DISPATCH(FmaChain)(iterations, sink);
}
float read_one_stream(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(ReadOneStream)(x, n); }
float read_four_streams(const float* x, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(ReadFourStreams)(x, n);
}
const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(InstructionSet)(); }

}  // namespace tessera::peers::simd
#endif
