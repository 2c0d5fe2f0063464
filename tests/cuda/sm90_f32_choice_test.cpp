// The choices of the f32 kernel for wgmma, without a GPU: what it takes on which arch, that every tile fits,
// and what its estimates say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cases/case.hpp"
#include "cases/tensors.hpp"
#include "core/plan.hpp"
#include "cuda/sm90/config.hpp"
#include "cuda/sm90_f32/choose.hpp"
#include "cuda/sm90_f32/launch.hpp"
#include "tests/cuda/planned.hpp"

namespace tessera::cuda::sm90_f32 {
namespace {

using testing_cuda::kSms;
using testing_cuda::Planned;
using testing_cuda::planned;
using testing_cuda::problem;

#define SKIP_WITHOUT_SM90() \
  if (!in_build()) GTEST_SKIP() << "this build has no code for sm_90a"

TEST(Sm90F32Rows, FitSharedMemoryAndRegisters) {
  for (const HeadDims& d : kHeadDims)
    for (const Variant variant : {Variant::plain, Variant::general}) {
      const Config c = config_for(d.dim, d.value_dim, variant);
      EXPECT_LE(c.shared_bytes(), sm90::kMostSharedBytes) << d.dim;
      EXPECT_EQ(c.keys % 16, 0) << d.dim;  // whole products
      EXPECT_LE(c.keys, 64) << d.dim;      // what the producer's registers hold
      // What the block starts with, whole eights a thread, is all there is to deal out.
      const int at_start = 64 * 1024 / c.threads() / 8 * 8 * c.threads();
      if (c.moves_registers()) {
        EXPECT_LE(128 * (c.producer_registers() + c.consumers * c.consumer_registers()), at_start) << d.dim;
      }
    }
}

TEST(Sm90F32, TakesAllOfF32ToHeadDim256OnItsArchAlone) {
  SKIP_WITHOUT_SM90();
  for (const char* words :
       {"b4 h16 q1024 d64 f32", "b1 h1 q1 k1 d1 f32", "b1 h8 q1 k65536 d128 f32",
        "b8 h32/8 q1 k4096 d128 f32", "b1 h2 q65 k70 d256 f32",
        "b2 h3 q70 k90 d64 f32 mask=boolean:heads-queries-keys layout=padded",
        "b3 h6/2 q65 k130 d72 v40 f32 causal=bottom-right softcap=20 mask=additive lengths alibi sinks",
        "b1 h2 q96 k130 d64 f32 scale=-0.125", "b2 h2 q5 k0 d64 f32", "b2 h2 q0 k5 d64 f32 causal=top-left",
        "b0 h2 q5 k5 d64 f32"}) {
    EXPECT_TRUE(planned(problem(words), 90).kernel.ends_with("_f32")) << words;
    EXPECT_EQ(planned(problem(words), 90, "sm90_f32").kernel, "sm90_f32") << words;
    EXPECT_EQ(planned(problem(words), 80).kernel, "sm80_f32") << words;
  }
  for (const char* words : {"b4 h16 q1024 d64 f32", "b2 h16 q1024 d128 f32", "b2 h16 q1024 d256 f32",
                            "b4 h16 q1024 d64 f32 causal=bottom-right softcap=20"})
    EXPECT_EQ(planned(problem(words), 90).kernel, "sm90_f32") << words;
  EXPECT_NE(planned(problem("b4 h16 q1024 d64 f16"), 90).kernel, "sm90_f32");
  EXPECT_NE(planned(problem("b1 h1 q9 k33 d1024 f32"), 90).kernel, "sm90_f32");
}

TEST(Sm90F32, RefusesInWords) {
  const auto refusal = [](const char* words) { return production_row().supports(problem(words)).message; };
  EXPECT_EQ(refusal("b4 h16 q1024 d64 bf16"), "dtype is bf16; f32 is accepted");
  EXPECT_EQ(refusal("b1 h1 q9 k33 d64 v257 f32"), "dim is 64 and value dim 257; up to 256 is accepted");
  core::Problem p = problem("b2 h16 q2048 d128 f32");
  p.batch = p.heads = p.kv_heads = 60000;
  p.queries = p.keys = 1 << 20;
  EXPECT_NE(production_row().supports(p).message.find("row tiles"), std::string::npos);
}

TEST(Sm90F32, TheLaunchIsToldInWords) {
  SKIP_WITHOUT_SM90();
  EXPECT_EQ(planned(problem("b2 h16 q1024 d80 f32"), 90).words,
            "plain variant: tiles of 128 rows, 64 keys at a time, shared out to 132 blocks, head dims padded "
            "to 128 and 128");
  EXPECT_EQ(planned(problem("b1 h8/2 q64 d256 f32 softcap=30"), 90).words,
            "general variant: tiles of 64 rows, 32 keys at a time, shared out to 8 blocks, 4 heads share "
            "their K and V");
}

TEST(Sm90F32, VariantsByOption) {
  const auto variant = [](const char* words) { return choose(problem(words), kSms).variant; };
  EXPECT_EQ(variant("b4 h16 q2048 d128 f32 lengths sinks causal=top-left"), Variant::plain);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f32 softcap=30"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f32 alibi align=top-left"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d64 f32 mask=additive"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d64 f32 scale=-0.1"), Variant::general);
}

// The heads that share K and V are rows of the same tiles.
TEST(Sm90F32, TilesAreOfPackedHeads) {
  const Choice packed = choose(problem("b2 h32/4 q20 k4096 d64 f32"), kSms);
  EXPECT_EQ(packed.row_tiles, 2);  // 160 rows
  EXPECT_EQ(packed.total, 16);
  EXPECT_EQ(packed.blocks, 16);
  const Choice many = choose(problem("b4 h16 q1024 d64 f32"), kSms);
  EXPECT_EQ(many.total, 512);
  EXPECT_EQ(many.blocks, kSms);
  EXPECT_DOUBLE_EQ(estimate(many, kSms), 4 * 128 / 0.14);
  const Choice causal = choose(problem("b4 h16 q1024 d64 f32 causal=top-left"), kSms);
  EXPECT_TRUE(causal.unequal);
  EXPECT_DOUBLE_EQ(estimate(causal, kSms), 512 * (512.5 + 63.5) / 1024 / kSms * 128 / 0.14);
}

}  // namespace
}  // namespace tessera::cuda::sm90_f32
