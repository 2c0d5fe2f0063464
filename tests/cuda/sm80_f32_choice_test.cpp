// The f32 kernel's tiles on every arch, without a GPU.
#include <gtest/gtest.h>

#include "cases/case.hpp"
#include "cases/tensors.hpp"
#include "cuda/sm80_f32/choose.hpp"

namespace tessera::cuda::sm80_f32 {
namespace {

core::Problem f32_problem(const cases::Case& c) {
  core::Problem problem;
  const core::Status status = cases::validated(c, &problem);
  EXPECT_TRUE(status.ok()) << c.name << ": " << status.message;
  return problem;
}

core::Problem parsed(const char* words) {
  std::string error;
  return f32_problem(*cases::parse(words, &error));
}

// CUDA programming guide, technical specifications by compute capability: shared memory a block may ask for.
struct Limit {
  int arch, sms, shared_bytes;
};
constexpr Limit kLimits[] = {{80, 108, 163 * 1024}, {86, 82, 99 * 1024},    {89, 58, 99 * 1024},
                             {90, 132, 227 * 1024}, {100, 148, 227 * 1024}, {120, 170, 99 * 1024}};

TEST(Sm80F32, EveryTileFitsItsGpu) {
  int judged = 0;
  for (const Limit& gpu : kLimits)
    for (const int dim : kHeadDims)
      for (const Variant variant : {Variant::many, Variant::few}) {
        if (variant == Variant::few && !has_few(dim)) continue;
        const Config c = config_for(code_arch_of(gpu.arch), dim, variant);
        EXPECT_LE(c.shared_bytes(), gpu.shared_bytes) << dim << " on sm_" << gpu.arch;
        EXPECT_LE(c.threads(), 256) << "more would leave a thread less than 255 registers";
        EXPECT_GE(c.dim, dim);
        // The results of key splits are merged where K and V were.
        EXPECT_LE(c.merge_bytes(), c.ring_bytes());
        ++judged;
      }
  EXPECT_EQ(judged, 30);
}

TEST(Sm80F32, TakesF32ToHeadDim256) {
  const auto takes = [](const char* words) { return production_row().supports(parsed(words)).ok(); };
  EXPECT_TRUE(takes("b1 h2 q9 d1 f32"));
  EXPECT_TRUE(takes("b1 h2 q9 d256 v1 f32 softcap=3 alibi sinks mask=boolean align=top-left"));
  EXPECT_FALSE(takes("b1 h2 q9 d257 f32"));
  EXPECT_FALSE(takes("b1 h2 q9 d64 v257 f32"));
  EXPECT_FALSE(takes("b1 h2 q9 d64 f16"));
  EXPECT_EQ(padded_dim(parsed("b1 h2 q9 d64 f32")), 64);
  EXPECT_EQ(padded_dim(parsed("b1 h2 q9 d65 f32")), 128);
  EXPECT_EQ(padded_dim(parsed("b1 h2 q9 d8 v129 f32")), 256);
}

TEST(Sm80F32, FewRowsShareKeysAmongWarps) {
  const auto variant = [](const char* words) { return variant_for(parsed(words), 90, 132); };
  EXPECT_EQ(variant("b4 h16 q1024 d64 f32"), Variant::many);
  EXPECT_EQ(variant("b8 h32/8 q1 k4096 d128 f32"), Variant::few);
  EXPECT_EQ(variant("b64 h32 q1 k4096 d64 f32"), Variant::few);  // more blocks than SMs, but no row more
  EXPECT_EQ(variant("b8 h32/8 q1 k4096 d256 f32"), Variant::many);
}

}  // namespace
}  // namespace tessera::cuda::sm80_f32
