// Which problems the decode kernels get, and that whatever they get fits the GPU.
#include <gtest/gtest.h>

#include "cuda/decode/choose.hpp"
#include "cuda/serving/choose.hpp"
#include "cuda/sm80/configs.hpp"
#include "tests/cuda/planned.hpp"

namespace tessera::cuda::decode {
namespace {

using testing_cuda::planned;
using testing_cuda::problem;

TEST(DecodeChoice, EveryConfigFitsItsGpu) {
  struct Limit {
    int arch, shared_bytes;
  };
  // CUDA programming guide, technical specifications by compute capability.
  for (const Limit& gpu : {Limit{80, 163 * 1024}, {86, 99 * 1024}, {89, 99 * 1024}, {90, 227 * 1024}}) {
    for (const HeadDims& dims : kHeadDims) {
      const Config c = config_for(sm80::code_arch_of(gpu.arch), dims.dim, dims.value_dim);
      EXPECT_LE(c.shared_bytes(), gpu.shared_bytes) << dims.dim << " on sm_" << gpu.arch;
      EXPECT_LE(c.tile.min_blocks * (c.shared_bytes() + 1024), gpu.shared_bytes + 1024)
          << dims.dim << " on sm_" << gpu.arch;
      EXPECT_EQ(kTileKeys % c.keys(), 0);
      EXPECT_GE(c.tile.stages, 2);
      for (const auto variant : {serving::Variant::few, serving::Variant::more, serving::Variant::few_options,
                                 serving::Variant::more_options}) {
        if (!serving::is_few(variant) && !serving::has_more(dims.dim)) continue;
        const serving::Config s =
            serving::config_for(sm80::code_arch_of(gpu.arch), dims.dim, dims.value_dim, variant);
        EXPECT_LE(s.min_blocks * (s.shared_bytes() + 1024), gpu.shared_bytes + 1024)
            << dims.dim << " on sm_" << gpu.arch;
        EXPECT_EQ(serving::kTileKeys % s.keys, 0);
        EXPECT_GE(s.stages, 2) << dims.dim << " on sm_" << gpu.arch;
        // What warps leave for each other at a piece's end fits the slot of a tile.
        EXPECT_LE(s.warps() * s.rows * (s.few ? s.value_dim * 4 : 0), s.slot_bytes());
      }
    }
    for (const HeadDims& dims : serving::kCodedHeadDims) {
      for (const auto variant : {serving::CodedVariant::few, serving::CodedVariant::more}) {
        if (variant != serving::CodedVariant::few && !serving::has_all_coded(dims.dim)) continue;
        const serving::Config s =
            serving::config_for_codes(sm80::code_arch_of(gpu.arch), dims.dim, dims.value_dim, variant);
        EXPECT_LE(s.min_blocks * (s.shared_bytes() + 1024), gpu.shared_bytes + 1024)
            << dims.dim << " on sm_" << gpu.arch;
        EXPECT_GE(s.stages, 2) << dims.dim << " on sm_" << gpu.arch;
        // Of 8 rows at a time.
        EXPECT_LE(s.warps() * 8 * (s.keys_apart() ? s.value_dim * 4 : 0), s.slot_bytes());
      }
    }
  }
}

TEST(DecodeChoice, FewRowsOverManyKeys) {
  for (const int arch : {80, 89, 90}) {
    for (const char* words :
         {"b1 h32/8 q1 k1024 d128 bf16", "b1 h32/8 q1 k8192 d128 bf16", "b1 h8/1 q1 k32768 d128 f16",
          "b4 h64/8 q2 k8192 d64 bf16 causal=bottom-right lengths", "b2 h16 q1 k4096 d256 f16 softcap=30"})
      EXPECT_EQ(planned(problem(words), arch).kernel, "decode") << words << " on sm_" << arch;
    // By TMA large ones are read faster.
    for (const char* words : {"b1 h32/8 q1 k131072 d128 bf16", "b64 h32/8 q1 k1024 d128 bf16",
                              "b8 h32/8 q4 k16384 d128 bf16 causal=bottom-right"})
      EXPECT_EQ(planned(problem(words), arch).kernel, arch >= 90 ? "serving" : "decode")
          << words << " on sm_" << arch;
    for (const char* words : {"b4 h16 q2048 d128 f16", "b1 h16 q1024 k8192 d64 bf16"})
      EXPECT_NE(planned(problem(words), arch).kernel, "decode") << words << " on sm_" << arch;
  }
  EXPECT_NE(planned(problem("b2 h8 q512 d64 f16"), 90).kernel, "decode");
  EXPECT_EQ(planned(problem("b1 h8 q1 k32 d64 f16"), 90).kernel, "sm80");  // few keys: nothing to cut
}

// Up to 16; the serving kernels have tiles of 64.
TEST(DecodeChoice, RowsArePackedToTheKernelsThatHoldThem) {
  EXPECT_EQ(planned(problem("b1 h32/8 q4 k9000 d128 f16"), 90).kernel, "decode");
  EXPECT_EQ(planned(problem("b1 h32/8 q5 k9000 d128 f16"), 90).kernel, "serving");
  const auto choice = [](const char* words) { return serving::choice_for(problem(words), 90); };
  EXPECT_EQ(choice("b1 h32/8 q2 k100 d128 f16").variant, serving::Variant::few);
  EXPECT_EQ(choice("b1 h32/8 q3 k100 d128 f16").variant, serving::Variant::more);
  EXPECT_EQ(serving::choice_for(problem("b1 h32/8 q4 k100 d128 f16"), 80).variant, serving::Variant::few);
  EXPECT_EQ(choice("b1 h16/4 q4 k100 d256 f16").row_tiles, 2);  // which have no tiles of 64 rows
  EXPECT_EQ(choice("b1 h32/8 q16 k100 d128 f16").row_tiles, 1);
  EXPECT_EQ(choice("b1 h32/8 q17 k100 d128 f16").row_tiles, 2);
  EXPECT_EQ(choice("b1 h32/8 q5 k100 d128 f16 softcap=3").variant, serving::Variant::more_options);
  EXPECT_EQ(choice("b1 h2 q1 k100 d99 v36 f16").variant,
            serving::Variant::few_options);  // no pairs of elements
  EXPECT_EQ(choice_for(problem("b1 h2 q1 k100 d100 v36 f16"), 90).dims.dim, 128);
}

// The other kernels choose a variant by the size of the batch.
TEST(DecodeChoice, InvariantCallsGetKernelsThatAre) {
  const testing_cuda::Pretend pretend({testing_cuda::pretended_gpu(90)});
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kind = TESSERA_CUDA;
  device.invariant = 1;
  core::Plan plan;
  // Whatever would be faster for the batch.
  for (const char* words : {"b1 h8 q512 d64 f16", "b64 h8 q64 k9000 d64 f16", "b2 h8 q1 k1 d128 bf16",
                            "b64 h32/8 q1 k4096 d128 bf16"}) {
    ASSERT_TRUE(core::plan(problem(words), device, &plan).ok());
    EXPECT_EQ(plan.kernel->name, problem(words).queries == 1 ? "decode" : "serving") << words;
  }
  ASSERT_TRUE(core::plan(problem("b2 h8 q512 d64 f32"), device, &plan).ok());
  EXPECT_EQ(plan.kernel->name, "scalar");
  device.kernel = "sm90";
  const core::Status refused = core::plan(problem("b2 h8 q512 d64 f16"), device, &plan);
  EXPECT_NE(refused.message.find("device.invariant is set"), std::string::npos) << refused.message;
}

// The same for batches whose entries differ, without being asked: the least of them would be the scalar
// kernel's by its estimate.
TEST(DecodeChoice, EntriesGetTheSameKernelsInEveryBatch) {
  const auto kernel = [](const char* words, int arch) { return planned(problem(words), arch).kernel; };
  for (const char* words : {"b1 h2 q1 k1 d64 f16 ragged packed", "b9 h2 q7 k4096 d64 f16 ragged packed",
                            "b4 h8/2 q1 k300 d128 bf16 lengths pages=16"}) {
    EXPECT_EQ(kernel(words, 90), "serving") << words;
    EXPECT_EQ(kernel(words, 89), "serving") << words;
  }
  EXPECT_EQ(kernel("b9 h2 q64 k64 d64 f16 ragged packed", 90), "serving");
  EXPECT_EQ(kernel("b9 h2 q64 k64 d64 f16 ragged packed prior=2", 90), "serving");
  EXPECT_EQ(kernel("b9 h2 q64 k64 d64 f16 ragged lengths pages=1", 90), "serving");
  EXPECT_EQ(kernel("b9 h2 q64 k64 d64 f32 ragged packed", 90), "scalar");
}

TEST(DecodeChoice, AWorkspaceOnlyWhereKeysAreCut) {
  const testing_cuda::Pretend pretend({testing_cuda::pretended_gpu(90)});
  const auto bytes = [](const char* words) {
    tessera_device device = TESSERA_DEVICE_INIT;
    device.kind = TESSERA_CUDA;
    device.kernel = "decode";
    core::Plan plan;
    const core::Status status = core::plan(problem(words), device, &plan);
    EXPECT_TRUE(status.ok()) << status.message;
    return status.ok() ? plan.prepared->workspace_bytes : -1;
  };
  EXPECT_EQ(bytes("b2 h32/8 q1 k128 d128 bf16"), 0);
  EXPECT_GT(bytes("b2 h32/8 q1 k1024 d128 bf16"), 0);
  EXPECT_LT(bytes("b64 h32/8 q1 k65536 d128 bf16"), std::int64_t{256} << 20);
}

}  // namespace
}  // namespace tessera::cuda::decode
