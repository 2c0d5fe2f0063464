// What is particular to bf16 in pairs (src/cpu/pairs-inl.hpp): dimensions and keys that have no partner,
// panels that begin in the middle of a pair, numbers that the instruction would flush, and the instruction
// itself.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "cpu/targets.hpp"
#include "support.hpp"

namespace {

using namespace tessera::cases;
using namespace tessera::testing_cpu;

TEST(Pairs, OddSizesWithEveryInput) {
  int judged = 0;
  double worst = 0;
  for (const char* words :
       {"b1 h2 q33 k47 d17 v19 bf16",   // no partner anywhere
        "b1 h1 q35 k121 d64 bf16",      // three rows left over, a key past the tile
        "b1 h1 q40 k1 d1 v16 bf16",     // nothing but a half
        "b2 h1 q20 k90 d24 v129 bf16",  // a narrow panel, blocks of output that differ
        "b1 h2 q70 k190 d48 v31 bf16 align=top-left window=5,0",  // panels begin and end anywhere
        "b1 h6/2 q31 k257 d40 bf16 causal=bottom-right lengths",  // the same, in groups
        "b2 h2 q45 k75 d31 v33 bf16 mask=boolean softcap=9",      //
        "b1 h2 q50 k60 d65 bf16 mask=additive sinks scale=-0.2"}) {
    const Case c = case_of(words);
    ASSERT_TRUE(c.queries * (c.heads / c.kv_heads) > 16 && c.value_dim >= 16)
        << "not a case for pairs: " << words;
    for (Input input : all_inputs()) {
      Instance instance(c, input, 3);
      const Expected expected = expect(instance);
      for (const tessera_device& device : kernels_here()) {
        const Verdict v = judge(instance, expected, device);
        EXPECT_TRUE(v.passed) << words << " on " << device.kernel << ": " << v.why;
        worst = std::max(worst, v.worst_ratio);
        ++judged;
      }
    }
  }
  fmt::print("{} judged, worst error {:.2f} of its bound\n", judged, worst);
}

// Rounded to nearest, the errors of the weights cancel; cut off, they would take the output below one. The
// bound is too wide to see that.
TEST(Pairs, WeightsAddUpToOne) {
  for (const tessera_device& device : kernels_here()) {
    Instance instance(case_of("b1 h1 q40 k500 d32 bf16"), Input::normal, 6);
    const tessera_attention& p = instance.problem();
    for (std::int64_t j = 0; j < 500; ++j) set_row(p.value, 0, 0, j, 1.0);
    attend(instance, device);
    for (std::int64_t i = 0; i < 40; ++i) {
      for (std::int64_t d = 0; d < 32; ++d) {
        ASSERT_EQ(tessera::oracle::load(p.output.data, p.output.dtype, offset(p.output, 0, 0, i) + d), 1.0)
            << device.kernel << ", row " << i;
      }
    }
  }
}

// One column of V is far below the normal numbers, the others are not: the bound, which follows the largest
// error, would forgive zeros there.
TEST(Pairs, OneColumnOfSubnormalValues) {
  for (const tessera_device& device : kernels_here()) {
    for (const double tiny : {0x1p-127, 0x1p-130, -0x1p-129}) {
      Instance instance(case_of("b1 h1 q40 k131 d32 bf16"), Input::normal, 4);
      const tessera_attention& p = instance.problem();
      for (std::int64_t j = 0; j < 131; ++j) {
        tessera::oracle::store(p.value.data, p.value.dtype, offset(p.value, 0, 0, j) + 5, tiny);
      }
      attend(instance, device);
      for (std::int64_t i = 0; i < 40; ++i) {
        // Weights that add up to one, each with a rounding of 2^-9; a step of the output is 2^-133.
        EXPECT_NEAR(tessera::oracle::load(p.output.data, p.output.dtype, offset(p.output, 0, 0, i) + 5), tiny,
                    std::fabs(tiny) * 0x1p-8 + 0x1p-133)
            << device.kernel << ", row " << i;
      }
    }
  }
}

// Products of Q and K below the normal numbers, made up for by the scale. Elements are normal each.
TEST(Pairs, ProductsBelowTheNormalNumbers) {
  const Case plain = case_of("b1 h1 q40 k131 d32 bf16 scale=0.125");
  Case shrunk = plain;
  shrunk.scale = 0x1p123f;
  for (const tessera_device& device : kernels_here()) {
    Instance a(plain, Input::normal, 5), b(shrunk, Input::normal, 5);
    for (const tessera_tensor* t : {&b.problem().query, &b.problem().key}) {
      for (std::int64_t row = 0; row < t->shape[2]; ++row) {
        for (std::int64_t d = 0; d < t->shape[3]; ++d) {
          const std::int64_t at = offset(*t, 0, 0, row) + d;
          tessera::oracle::store(t->data, t->dtype, at,
                                 tessera::oracle::load(t->data, t->dtype, at) * 0x1p-63);
        }
      }
    }
    attend(a, device);
    attend(b, device);
    const auto* const lse = static_cast<const float*>(a.problem().lse.data);
    const auto* const shrunk_lse = static_cast<const float*>(b.problem().lse.data);
    for (std::int64_t i = 0; i < 40; ++i)
      EXPECT_NEAR(lse[i], shrunk_lse[i], 1e-4) << device.kernel << ", row " << i;
  }
}

#if defined(__x86_64__)
// Sixteen dot products of pairs by the instruction itself.
__attribute__((target("avx512f"))) void instruction(const std::uint32_t* a, const std::uint32_t* b,
                                                    float* sums) {
  __asm__ volatile(
      "vmovups (%0), %%zmm0\n\tvmovups (%1), %%zmm1\n\tvmovups (%2), %%zmm2\n\t"
      "vdpbf16ps %%zmm2, %%zmm1, %%zmm0\n\tvmovups %%zmm0, (%0)\n\tvzeroupper"
      :
      : "r"(sums), "r"(a), "r"(b)
      : "memory", "xmm0", "xmm1", "xmm2");
}
#endif

float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
float half(std::uint32_t pair, int shift) { return std::bit_cast<float>(pair << shift & 0xffff0000u); }

// The manual's description, which the emulation and the exact kernels rely on, against the CPU.
TEST(Pairs, TheInstructionIsTwoMultiplyAdds) {
#if defined(__x86_64__)
  std::string missing = "this build has no kernel for it";
  for (const tessera::cpu::Target& target : tessera::cpu::targets())
    if (target.name == "cpu_avx512_bf16") missing = target.missing();
  if (!missing.empty()) GTEST_SKIP() << "vdpbf16ps cannot be tried: " << missing;
  std::mt19937 generator(7);
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  int usual = 0;
  for (int n = 0; n < 20000; ++n) {
    // Any bits at all, or exponents close enough for sums to matter.
    const auto draw = [&] { return n % 2 == 0 ? random() : (random() & 0x83ff83ffu) | 0x3c003c00u; };
    std::uint32_t a[16], b[16];
    float sums[16], before[16];
    for (int i = 0; i < 16; ++i) {
      a[i] = draw();
      b[i] = draw();
      before[i] = sums[i] =
          std::bit_cast<float>(n % 2 == 0 ? random() : (random() & 0x83ffffffu) | 0x38000000u);
    }
    instruction(a, b, sums);
    for (int i = 0; i < 16; ++i) {
      float want = flushed(before[i]);
      for (const int shift : {0, 16})
        want = flushed(std::fma(flushed(half(a[i], shift)), flushed(half(b[i], shift)), want));
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(sums[i]));
        continue;
      }
      ASSERT_EQ(std::bit_cast<std::uint32_t>(want), std::bit_cast<std::uint32_t>(sums[i]))
          << fmt::format("{:08x} . {:08x} + {:a}: {:a}, not {:a}", a[i], b[i], before[i], sums[i], want);
      ++usual;
    }
  }
  fmt::print("{} sums compared\n", usual);
#else
  GTEST_SKIP() << "vdpbf16ps is an instruction of x86-64";
#endif
}

}  // namespace
