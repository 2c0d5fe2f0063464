// exp2, tanh and one step of the online softmax, on panels: scores s[key][row], rows in lanes.
//
// Per row the state is (max, sum): sum = sum over keys so far of exp2((s - max) * factor). A tile that
// raises the max shrinks what came before by alpha = exp2((old max - new max) * factor).
#if defined(TESSERA_CPU_SOFTMAX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_SOFTMAX_INL
#undef TESSERA_CPU_SOFTMAX_INL
#else
#define TESSERA_CPU_SOFTMAX_INL
#endif

#include "cpu/blocking-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// 2^x for x <= 0 (and a little above), NaN for NaN, 0 below 2^-126. Split into 2^n * 2^f with |f| <= 1/2;
// the polynomial interpolates (2^f - 1) / f at Chebyshev nodes, relative error 5e-9. The vectors go through
// it step by step together: one alone is a long chain in which every operation waits for the one before.
template <int N>
HWY_INLINE void exp2_nonpositive(Vec (&x)[N]) {
  constexpr float kPolynomial[] = {0.00133908634f, 0.00961808256f, 0.0555035711f,
                                   0.240226508f,   0.693147188f,   1.0f};
  const F f32;
  const hn::RebindToSigned<F> i32;
  const Vec magic = hn::Set(f32, 12582912.0f);  // 1.5 * 2^23: the sum's low bits are the integer n
  Vec shifted[N], p[N];
  TESSERA_UNROLL
  for (int i = 0; i < N; ++i) {
    // At -127 the exponent below is that of zero. Not a maximum, which could lose a NaN.
    x[i] = hn::IfThenElse(hn::Lt(x[i], hn::Set(f32, -126.0f)), hn::Set(f32, -127.0f), x[i]);
    shifted[i] = hn::Add(x[i], magic);
  }
  TESSERA_UNROLL
  for (int i = 0; i < N; ++i) {
    x[i] = hn::Sub(x[i], hn::Sub(shifted[i], magic));
    p[i] = hn::Set(f32, 0.000154531629f);
  }
  TESSERA_UNROLL
  for (const float coefficient : kPolynomial) {
    TESSERA_UNROLL
    for (int i = 0; i < N; ++i) p[i] = hn::MulAdd(p[i], x[i], hn::Set(f32, coefficient));
  }
  TESSERA_UNROLL
  for (int i = 0; i < N; ++i) {
    // A product, not an addition to the exponent bits: that could turn a NaN into a number.
    const auto n = hn::ShiftLeft<23>(hn::BitCast(i32, shifted[i]));
    x[i] = hn::Mul(p[i], hn::BitCast(f32, hn::Add(n, hn::Set(i32, 0x3f800000))));
  }
}

HWY_INLINE Vec exp2_nonpositive(Vec x) {
  Vec one[1] = {x};
  exp2_nonpositive(one);
  return one[0];
}

// tanh to about 1e-7 relative: an odd polynomial near 0, where 1 - e^(-2|x|) would cancel.
HWY_INLINE Vec tanh(Vec x) {
  const F f32;
  const Vec one = hn::Set(f32, 1.0f);
  const Vec magnitude = hn::Abs(x);
  const Vec u = hn::Mul(x, x);
  Vec p = hn::Set(f32, 0.00252639054f);
  p = hn::MulAdd(p, u, hn::Set(f32, -0.0085263329f));
  p = hn::MulAdd(p, u, hn::Set(f32, 0.0218184491f));
  p = hn::MulAdd(p, u, hn::Set(f32, -0.0539647004f));
  p = hn::MulAdd(p, u, hn::Set(f32, 0.133333242f));
  p = hn::MulAdd(p, u, hn::Set(f32, -0.333333333f));
  const Vec near_zero = hn::MulAdd(hn::Mul(x, u), p, x);
  const Vec e = exp2_nonpositive(hn::Mul(magnitude, hn::Set(f32, -2.88539008f)));  // e^(-2|x|)
  const Vec far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(f32, 0.55f)), near_zero, far);
}

// The subtrahend for a row's max: 0 while nothing is visible, so that -inf - max stays -inf.
HWY_INLINE Vec usable_max(Vec max) { return hn::IfThenZeroElse(hn::Eq(max, hn::Set(F(), -kInf)), max); }

// What a weight that underflowed is stored as for the careful P*V kernels: they must tell it from the
// zero of a hidden key, and treat it as zero all the same where the value is finite.
inline constexpr float kUnderflowed = -1.0f;

// old * alpha + acc, but an infinite or NaN old stays what it is even if alpha underflowed.
HWY_INLINE Vec grow_careful(Vec old, Vec alpha, Vec acc) {
  const Vec zero = hn::Zero(F());
  const auto finite = hn::Eq(hn::Mul(old, zero), zero);
  return hn::IfThenElse(finite, hn::MulAdd(old, alpha, acc), hn::Add(old, acc));
}

// Scores of KB keys to weights, in place; adds them to sum[].
template <int NV, int KB, bool kMark>
HWY_INLINE void weigh_keys(float* HWY_RESTRICT s, Vec factor, const Vec (&max)[NV], Vec (&sum)[NV]) {
  const F f32;
  Vec p[KB * NV];
  TESSERA_UNROLL
  for (int i = 0; i < KB * NV; ++i) {
    p[i] = hn::Mul(hn::Sub(hn::Load(f32, s + i * kLanes), max[i % NV]), factor);
  }
  exp2_nonpositive(p);
  TESSERA_UNROLL
  for (int i = 0; i < KB * NV; ++i) {
    float* const at = s + i * kLanes;
    sum[i % NV] = hn::Add(sum[i % NV], p[i]);
    if constexpr (kMark) {
      const Vec marked = hn::IfThenElse(hn::Eq(p[i], hn::Zero(f32)), hn::Set(f32, kUnderflowed), p[i]);
      hn::Store(hn::IfThenZeroElse(hn::Eq(hn::Load(f32, at), hn::Set(f32, -kInf)), marked), f32, at);
    } else {
      hn::Store(p[i], f32, at);
    }
  }
}

template <int NV, bool kMark>
HWY_INLINE void weigh(float* HWY_RESTRICT s, std::size_t keys, Vec factor, const Vec (&max)[NV],
                      Vec (&sum)[NV]) {
  constexpr int KB = NV < 4 ? 4 / NV : 1;
  std::size_t j = 0;
  for (; j + KB <= keys; j += KB) weigh_keys<NV, KB, kMark>(s + j * kWidth<NV>, factor, max, sum);
  for (; j < keys; ++j) weigh_keys<NV, 1, kMark>(s + j * kWidth<NV>, factor, max, sum);
}

// One tile's step, before and after its weights. max[], sum[] and alpha[] hold one float per row of the
// panel.
template <int NV>
HWY_INLINE void raise_max(const Vec (&tile_max)[NV], Vec factor, float* max, float* alpha,
                          Vec (&reference)[NV]) {
  const F f32;
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) {
    const Vec old_max = hn::Load(f32, max + v * kLanes);
    const Vec new_max = hn::Max(old_max, tile_max[v]);
    reference[v] = usable_max(new_max);
    hn::Store(new_max, f32, max + v * kLanes);
    hn::Store(exp2_nonpositive(hn::Mul(hn::Sub(old_max, reference[v]), factor)), f32, alpha + v * kLanes);
  }
}

template <int NV>
HWY_INLINE void grow_sum(const Vec (&tile_sum)[NV], const float* alpha, float* sum) {
  const F f32;
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) {
    const Vec a = hn::Load(f32, alpha + v * kLanes);
    hn::Store(hn::MulAdd(hn::Load(f32, sum + v * kLanes), a, tile_sum[v]), f32, sum + v * kLanes);
  }
}

template <int NV, bool kMark>
HWY_INLINE void softmax_step(float* HWY_RESTRICT s, std::size_t keys, float factor, const Vec (&tile_max)[NV],
                             float* max, float* sum, float* alpha) {
  const Vec scale = hn::Set(F(), factor);
  Vec reference[NV], tile_sum[NV];
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) tile_sum[v] = hn::Zero(F());
  raise_max<NV>(tile_max, scale, max, alpha, reference);
  weigh<NV, kMark>(s, keys, scale, reference, tile_sum);
  grow_sum<NV>(tile_sum, alpha, sum);
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
