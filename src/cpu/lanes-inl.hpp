// Rows in lanes: the matrix products for many rows. Both are the same outer-product micro-kernel; with
// one broadcast and NV vectors it keeps block x NV accumulators in registers.
//
// What is multiplied and added in one go is a policy, Terms: one product of floats here, two products of bf16
// pairs in pairs-inl.hpp, where a step is a pair of dimensions or of keys.
//
//   scores   s[key][row]   = sum over d    of K[key][d]  * Qt[d][row]      (block of keys x panel)
//   output   Ot[d][row]    = sum over key  of V[key][d]  * P[key][row]     (block of dims x panel)
#if defined(TESSERA_CPU_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_LANES_INL
#undef TESSERA_CPU_LANES_INL
#else
#define TESSERA_CPU_LANES_INL
#endif

#include "cpu/feed-inl.hpp"
#include "cpu/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

struct FloatTerms {
  using Element = float;
  using Operand = Vec;
  static HWY_INLINE Vec load(const float* p) { return hn::Load(F(), p); }
  static HWY_INLINE Vec repeat(float x) { return hn::Set(F(), x); }
  static HWY_INLINE Vec add(Vec a, Vec b, Vec sum) { return hn::MulAdd(a, b, sum); }
};

template <class Terms, int MR, int NV, class Element = typename Terms::Element>
HWY_NOINLINE void score_block(const Element* HWY_RESTRICT k, std::size_t stride,
                              const Element* HWY_RESTRICT qt, std::size_t dim, float* HWY_RESTRICT s,
                              float* HWY_RESTRICT max) {
  using Operand = typename Terms::Operand;
  const F f32;
  Vec acc[MR][NV];
  TESSERA_UNROLL
  for (int i = 0; i < MR; ++i) {
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) acc[i][v] = hn::Zero(f32);
  }
  for (std::size_t d = 0; d < dim; ++d) {
    Operand q[NV];
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) q[v] = Terms::load(qt + d * kWidth<NV> + v * kLanes);
    TESSERA_UNROLL
    for (int i = 0; i < MR; ++i) {
      const Operand key = Terms::repeat(k[i * stride + d]);
      TESSERA_UNROLL
      for (int v = 0; v < NV; ++v) acc[i][v] = Terms::add(key, q[v], acc[i][v]);
    }
  }
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) {
    Vec highest = hn::Load(f32, max + v * kLanes);
    TESSERA_UNROLL
    for (int i = 0; i < MR; ++i) {
      hn::Store(acc[i][v], f32, s + i * kWidth<NV> + v * kLanes);
      highest = hn::Max(highest, acc[i][v]);
    }
    hn::Store(highest, f32, max + v * kLanes);
  }
}

template <class Terms, int MR, int NV, class Element = typename Terms::Element>
HWY_INLINE void score_rest(std::size_t keys, const Element* k, std::size_t stride, const Element* qt,
                           std::size_t dim, float* s, float* max) {
  if (keys == MR) {
    score_block<Terms, MR, NV>(k, stride, qt, dim, s, max);
  } else if constexpr (MR > 1) {
    score_rest<Terms, MR - 1, NV>(keys, k, stride, qt, dim, s, max);
  }
}

// Scores of `keys` keys, the first of them row `at` of the tile, and their max per row.
template <int NV>
HWY_INLINE void score_lanes(Feed& feed, std::size_t at, std::size_t keys, const float* qt, std::size_t dim,
                            float* s, Vec (&tile_max)[NV]) {
  constexpr std::size_t kStep = kBlock<NV>;
  const F f32;
  const FloatTile k = feed.key().from(at);
  HWY_ALIGN float max[kWidth<NV>];
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) hn::Store(hn::Set(f32, -kInf), f32, max + v * kLanes);
  std::size_t j = 0;
  for (; j + kStep <= keys; j += kStep) {
    feed.need(at + j + kStep);
    feed.fetch_ahead();
    score_block<FloatTerms, kStep, NV>(k.data + j * k.stride, k.stride, qt, dim, s + j * kWidth<NV>, max);
  }
  if (j < keys) {
    feed.need(at + keys);
    score_rest<FloatTerms, kStep - 1, NV>(keys - j, k.data + j * k.stride, k.stride, qt, dim,
                                          s + j * kWidth<NV>, max);
  }
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) tile_max[v] = hn::Load(f32, max + v * kLanes);
}

// The tile's sum starts from zero and meets the running output once: fewer roundings in a row, and the
// shrinking by alpha costs nothing.
template <class Terms, int MR, int NV, class Element = typename Terms::Element>
HWY_NOINLINE void output_block(const Element* HWY_RESTRICT v_tile, std::size_t stride, std::size_t keys,
                               const Element* HWY_RESTRICT p, const float* HWY_RESTRICT alpha,
                               float* HWY_RESTRICT ot) {
  using Operand = typename Terms::Operand;
  const F f32;
  Vec acc[MR][NV];
  TESSERA_UNROLL
  for (int i = 0; i < MR; ++i) {
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) acc[i][v] = hn::Zero(f32);
  }
  for (std::size_t j = 0; j < keys; ++j) {
    Operand weight[NV];
    TESSERA_UNROLL
    for (int v = 0; v < NV; ++v) weight[v] = Terms::load(p + j * kWidth<NV> + v * kLanes);
    TESSERA_UNROLL
    for (int i = 0; i < MR; ++i) {
      const Operand value = Terms::repeat(v_tile[i]);
      TESSERA_UNROLL
      for (int v = 0; v < NV; ++v) acc[i][v] = Terms::add(value, weight[v], acc[i][v]);
    }
    v_tile += stride;
  }
  TESSERA_UNROLL
  for (int v = 0; v < NV; ++v) {
    const Vec a = hn::Load(f32, alpha + v * kLanes);
    TESSERA_UNROLL
    for (int i = 0; i < MR; ++i) {
      float* const at = ot + i * kWidth<NV> + v * kLanes;
      hn::Store(hn::MulAdd(hn::Load(f32, at), a, acc[i][v]), f32, at);
    }
  }
}

template <class Terms, int MR, int NV, class Element = typename Terms::Element>
HWY_INLINE void output_sized(std::size_t dims, const Element* v, std::size_t stride, std::size_t keys,
                             const Element* p, const float* alpha, float* ot) {
  if (dims == MR) {
    output_block<Terms, MR, NV>(v, stride, keys, p, alpha, ot);
  } else if constexpr (MR > 1) {
    output_sized<Terms, MR - 1, NV>(dims, v, stride, keys, p, alpha, ot);
  }
}

// The dimensions are spread evenly over the blocks: a short last block would leave the FMA units idle.
template <class Terms, int NV, class Element = typename Terms::Element>
HWY_INLINE void output_lanes(Feed& feed, const Element* v, std::size_t stride, std::size_t keys,
                             const Element* p, const float* alpha, std::size_t value_dim, float* ot) {
  constexpr std::size_t kStep = kBlock<NV>;
  const std::size_t blocks = (value_dim + kStep - 1) / kStep;
  const std::size_t base = value_dim / blocks, larger = value_dim % blocks;
  std::size_t d = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t dims = base + (b < larger ? 1 : 0);
    feed.fetch_ahead();
    output_sized<Terms, kStep, NV>(dims, v + d, stride, keys, p, alpha, ot + d * kWidth<NV>);
    d += dims;
  }
}

// For tiles whose V holds inf or NaN, and for all tiles after one: a hidden key must add nothing, and an
// infinite output must survive being shrunk to nothing. Weights come from weigh<.., true>. Where every
// value is finite the operations are those of output_block, so the bits are too.
template <int NV>
HWY_NOINLINE void output_lanes_careful(FloatTile v_tile, std::size_t keys, const float* p, const float* alpha,
                                       std::size_t value_dim, float* ot) {
  const F f32;
  const Vec zero = hn::Zero(f32);
  for (std::size_t d = 0; d < value_dim; ++d) {
    for (int v = 0; v < NV; ++v) {
      Vec acc = zero;
      for (std::size_t j = 0; j < keys; ++j) {
        const Vec weight = hn::Load(f32, p + j * kWidth<NV> + v * kLanes);
        const Vec value = hn::Set(f32, v_tile.data[j * v_tile.stride + d]);
        if (all_finite(value)) {
          acc = hn::MulAdd(value, hn::IfThenElseZero(hn::Gt(weight, zero), weight), acc);
        } else {
          acc = hn::IfThenElse(hn::Eq(weight, zero), acc, hn::Add(acc, value));
        }
      }
      float* const at = ot + d * kWidth<NV> + v * kLanes;
      hn::Store(grow_careful(hn::Load(f32, at), hn::Load(f32, alpha + v * kLanes), acc), f32, at);
    }
  }
}

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
