// Which problems with values in their keys the serving kernels get, and that they fit every GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cuda/serving/choose.hpp"
#include "cuda/sm80/configs.hpp"
#include "tests/cuda/planned.hpp"

namespace tessera::cuda::serving {
namespace {

using testing_cuda::planned;
using testing_cuda::problem;

std::string kernel(const std::string& words, int arch) { return planned(problem(words), arch).kernel; }

TEST(LatentChoice, ValuesInKeysAreReadWithThem) {
  for (const int arch : {80, 89, 90}) {
    for (const char* words :
         {"b1 h128/1 q1 k4096 d576 v512 bf16 latent", "b64 h16/1 q1 k1 d576 v512 f16 latent",
          "b4 h16/1 q4 k4096 d576 v512 bf16 causal=bottom-right latent",
          "b4 h16/1 q2 k100 d576 v512 bf16 causal=bottom-right lengths ragged pages=64 latent",
          "b4 h16/1 q2 k100 d576 v512 f16 causal=bottom-right lengths pages=5 softcap=20 sinks latent",
          "b2 h128/1 q700 k3000 d576 v512 bf16 causal=bottom-right ragged lengths pages=16 latent",
          "b1 h16/1 q2048 d576 v512 bf16 causal=bottom-right latent",
          "b2 h16/1 q2 k100 d576 v512 bf16 causal=bottom-right lengths ragged pages=64 latent append "
          "rope=interleaved:32+512",
          "b2 h16/1 q1 k500 d320 v300 f16 latent"})
      EXPECT_EQ(kernel(words, arch), "serving") << words << " on sm_" << arch;
    for (const char* words :
         {"b1 h128/1 q1 k4096 d576 v512 bf16", "b1 h16/1 q1 k4096 d577 v512 bf16 latent",
          "b1 h16/1 q1 k4096 d576 v513 bf16 latent", "b1 h16/1 q1 k4096 d576 v512 f32 latent"})
      EXPECT_EQ(kernel(words, arch), "scalar") << words << " on sm_" << arch;
  }
}

TEST(LatentChoice, KeysOfCodesAndKeysInTwoTensors) {
  for (const int arch : {80, 89, 90}) {
    for (const char* words :
         {"b64 h128/1 q1 k4096 d576 v512 bf16 lengths pages=64 latent tail=64 cache=f8e4m3 scales=tensor",
          "b2 h16/1 q1 k100 d576 v512 f16 latent cache=i8 scales=head",
          "b2 h16/1 q3 k100 d576 v512 bf16 ragged packed latent cache=f8e5m2 scales=block64 softcap=20",
          "b2 h16/1 q3 k100 d96 v64 bf16 causal=bottom-right lengths pages=5 latent tail=32 cache=i8 append"})
      EXPECT_EQ(kernel(words, arch), "serving_codes") << words << " on sm_" << arch;
    for (const char* words :
         {"b2 h16/1 q1 k100 d576 v512 bf16 lengths pages=64 latent tail=64",
          "b2 h16/1 q3 k100 d192 v128 f16 causal=bottom-right lengths ragged pages=5 latent tail=64 "
          "softcap=20",
          "b2 h16/1 q700 k900 d192 v128 f16 ragged packed latent tail=64",
          "b2 h16/1 q1 k100 d128 v64 bf16 causal=bottom-right lengths pages=16 latent tail=64 append"})
      EXPECT_EQ(kernel(words, arch), "serving") << words << " on sm_" << arch;
    for (const char* words :
         {"b2 h16/1 q1 k100 d576 v512 bf16 tail=64",  // values of their own
          "b2 h16/1 q1 k100 d576 v512 f32 latent tail=64", "b2 h16/1 q1 k100 d576 v500 bf16 latent tail=72",
          "b2 h16/1 q1 k100 d576 v512 f32 latent tail=64 cache=i8",
          "b2 h16/1 q1 k100 d96 v32 bf16 latent tail=64",  // it begins in the middle of a tile's block
          "b2 h16/1 q1 k100 d571 v507 bf16 latent tail=64 cache=i8"})
      EXPECT_EQ(kernel(words, arch), "tail_rows") << words << " on sm_" << arch;
  }
}

TEST(LatentChoice, TailsThatAreNotWholeChunksAreForPlainArithmetic) {
  core::Problem p = problem("b2 h16/1 q1 k100 d576 v512 bf16 latent tail=64 cache=f8e4m3 scales=tensor");
  ASSERT_EQ(planned(p, 90).kernel, "serving_codes");
  p.kv.tail.row_stride += 4;
  EXPECT_EQ(planned(p, 90).kernel, "tail_rows");
}

TEST(LatentChoice, ValuesElsewhereInKeysAreValuesOfTheirOwn) {
  core::Problem p = problem("b2 h16/1 q1 k100 d576 v512 bf16 latent");
  ASSERT_TRUE(takes(p).ok());
  p.kv.value.data = static_cast<char*>(p.kv.value.data) + 128;
  const core::Status refused = takes(p);
  EXPECT_EQ(refused.message,
            "dim is 576 and value dim 512; up to 256 is accepted, and up to 576 and 512 where value.data is "
            "key.data with its strides");
  p = problem("b2 h16/1 q1 k100 d576 v512 bf16 latent");
  p.kv.value.row_stride *= 2;
  EXPECT_FALSE(takes(p).ok());
  p = problem("b2 h16/1 q1 k100 d576 v512 bf16 latent");
  p.kv.value.batch_stride *= 2;
  EXPECT_FALSE(takes(p).ok());
  p = problem("b2 h16/1 q1 k100 d576 v512 bf16 latent");
  p.kv.value.head_stride += 1;  // of one head: never used
  EXPECT_TRUE(takes(p).ok());
  p = problem("b2 h16/2 q1 k100 d576 v512 bf16 latent");
  p.kv.value.head_stride += 1;
  EXPECT_FALSE(takes(p).ok());
}

// Head dims that others have are theirs, wherever the values lie.
TEST(LatentChoice, SmallHeadDimsHaveKernelsOfTheirOwn) {
  const Choice choice = choice_for(problem("b2 h8/1 q1 k70 d96 v64 f16 lengths pages=16 latent"), 90);
  EXPECT_EQ(choice.dims.dim, 128);
  EXPECT_FALSE(choice.config.latent);
}

TEST(LatentChoice, EveryConfigFitsItsGpu) {
  struct Limit {
    int arch, shared_bytes;
  };
  // CUDA programming guide, technical specifications by compute capability.
  for (const Limit& gpu : {Limit{80, 163 * 1024}, {86, 99 * 1024}, {89, 99 * 1024}, {90, 227 * 1024}})
    for (const Variant variant : {Variant::few, Variant::few_options}) {
      const Config c = config_for(sm80::code_arch_of(gpu.arch), 576, 512, variant);
      EXPECT_TRUE(c.latent);
      EXPECT_LE(c.shared_bytes(), gpu.shared_bytes) << "sm_" << gpu.arch;
      EXPECT_EQ(kTileKeys % c.keys, 0);
      EXPECT_EQ(c.stages, 2) << "sm_" << gpu.arch;
      EXPECT_EQ(c.warps() * c.columns(), c.value_dim);
    }
}

// Whatever the shape: 128 heads leave 32 KB for every 16 of them and piece.
TEST(LatentChoice, TheWorkspaceIsBounded) {
  const testing_cuda::Pretend pretend({testing_cuda::pretended_gpu(90)});
  std::int64_t most = 0;
  for (const char* sizes : {"b1 h16/1 k131072", "b1 h128/1 k131072", "b2 h128/1 k8192", "b7 h20/4 k8192",
                            "b128 h128/1 k8192", "b128 h16/1 k1000"})
    for (const char* rest :
         {"q1", "q1 lengths pages=64", "q5 ragged lengths pages=64", "q700 ragged packed"}) {
      const std::string words = std::string(sizes) + " d576 v512 bf16 latent " + rest;
      tessera_device device = TESSERA_DEVICE_INIT;
      device.kind = TESSERA_CUDA;
      core::Plan plan;
      const core::Status status = core::plan(problem(words), device, &plan);
      ASSERT_TRUE(status.ok()) << words << ": " << status.message;
      EXPECT_EQ(plan.kernel->name, "serving") << words;
      most = std::max(most, plan.prepared->workspace_bytes);
    }
  EXPECT_GT(most, 0);
  EXPECT_LE(most, std::int64_t{256} << 20);
}

}  // namespace
}  // namespace tessera::cuda::serving
