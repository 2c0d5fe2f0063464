// The production kernel's tiles on every arch, without a GPU: whatever a problem gets must fit there.
#include <gtest/gtest.h>

#include "cases/case.hpp"
#include "cases/codes.hpp"
#include "cases/tensors.hpp"
#include "cuda/ladder/fp8_rung.hpp"
#include "cuda/ladder/production_rungs.hpp"
#include "cuda/ladder/table.hpp"
#include "cuda/sm80/choose.hpp"

namespace tessera::cuda::sm80 {
namespace {

core::Problem problem_of(const cases::Case& c) {
  core::Problem problem;
  const core::Status status = cases::validated(c, &problem);
  EXPECT_TRUE(status.ok()) << c.name << ": " << status.message;
  return problem;
}

// CUDA programming guide, technical specifications by compute capability: shared memory a block may ask for.
struct Limit {
  int arch;
  int sms;
  int shared_bytes;
};
constexpr Limit kLimits[] = {{80, 108, 163 * 1024}, {86, 82, 99 * 1024},    {89, 58, 99 * 1024},
                             {90, 132, 227 * 1024}, {100, 148, 227 * 1024}, {120, 170, 99 * 1024}};

TEST(Sm80, EveryChoiceFitsItsGpu) {
  int judged = 0;
  for (const cases::Case& named : cases::named()) {
    // What they have beside codes is not for others.
    if (cases::is_code(named.dtype) || named.cache != 0) continue;
    for (const tessera_dtype dtype : {TESSERA_F16, TESSERA_BF16}) {
      cases::Case c = named;
      c.dtype = dtype;
      const core::Problem problem = problem_of(c);
      if (!production_row().supports(problem).ok()) continue;
      const HeadDims dims = padded_dims(problem);
      EXPECT_GE(dims.dim, problem.dim) << c.name;
      EXPECT_GE(dims.value_dim * (in_parts(dims.dim) ? kMostParts : 1), problem.value_dim) << c.name;
      for (const Limit& gpu : kLimits) {
        const Variant variant = variant_for(problem, gpu.arch, gpu.sms);
        const Config config = config_for(code_arch_of(gpu.arch), dims.dim, dims.value_dim, variant);
        EXPECT_LE(config.shared_bytes(), gpu.shared_bytes) << c.name << " on sm_" << gpu.arch;
        EXPECT_LE(config.threads(), 1024) << c.name << " on sm_" << gpu.arch;
        ++judged;
      }
    }
  }
  EXPECT_GT(judged, 500);
}

TEST(Sm80, OptionsThatTouchScoresTakeTheGeneralVariant) {
  const auto variant = [](const char* words) {
    std::string error;
    return variant_for(problem_of(*cases::parse(words, &error)), 90, 132);
  };
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16"), Variant::plain);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 softcap=30"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 alibi align=top-left"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 mask=boolean"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d128 f16 scale=-0.1"), Variant::general);
  EXPECT_EQ(variant("b4 h16 q2048 d512 f16"), Variant::general);
}

// PyTorch exports tensors with stride 1 along dimensions of one element, whatever the others are.
TEST(Sm80, StridesThatAreNeverUsedDoNotMakeRowsUnaligned) {
  std::string error;
  core::Problem one = problem_of(*cases::parse("b1 h16 q2048 d128 f16", &error));
  for (core::Tensor4* t : {&one.query, &one.kv.key, &one.kv.value, &one.output.rows}) t->batch_stride = 1;
  EXPECT_EQ(variant_for(one, 90, 132), Variant::plain);

  core::Problem decode = problem_of(*cases::parse("b8 h32/8 q1 k4096 d128 bf16", &error));
  decode.query.row_stride = decode.output.rows.row_stride = 1;
  EXPECT_NE(variant_for(decode, 90, 132), Variant::general);

  core::Problem two = problem_of(*cases::parse("b2 h16 q2048 d128 f16", &error));
  two.kv.key.batch_stride += 1;
  EXPECT_EQ(variant_for(two, 90, 132), Variant::general);
}

TEST(Sm80, HeadDimsPast256ComeInParts) {
  std::string error;
  const auto row_of = [&](const char* words) {
    const core::Problem p = problem_of(*cases::parse(words, &error));
    EXPECT_TRUE(production_row().supports(p).ok()) << words;
    return padded_dims(p);
  };
  EXPECT_EQ(row_of("b1 h2 q9 d256 f16").dim, 256);
  for (const char* words : {"b1 h2 q9 d257 f16", "b1 h2 q9 d512 bf16", "b1 h2 q9 d64 v257 f16",
                            "b1 h2 q9 d512 v1 f16", "b1 h2 q9 d1 v512 bf16"})
    EXPECT_EQ(row_of(words).dim, 512) << words;
  EXPECT_FALSE(production_row().supports(problem_of(*cases::parse("b1 h2 q9 d513 f16", &error))).ok());
  EXPECT_FALSE(production_row().supports(problem_of(*cases::parse("b1 h2 q9 d8 v513 f16", &error))).ok());
}

// Dynamic shared memory, which the compiler's report does not show: 64 KB is what the ladder allows.
TEST(Ladder, EveryRungsSharedMemoryHoldsTheLimit) {
  constexpr int kLimit = 64 * 1024;
  for (const int dim : {64, 128}) {
    for (const auto& rung : {ladder::shared_padded, ladder::shared, ladder::async, ladder::vector,
                             ladder::tensor_qk, ladder::tensor_tiled, ladder::tensor_pv}) {
      EXPECT_LE(rung(Element::f16, dim).shared_bytes, kLimit) << dim;
      EXPECT_LE(rung(Element::bf16, dim).shared_bytes, kLimit) << dim;
    }
    EXPECT_LE(ladder::tensor_tiled_f16(Element::f16, dim).shared_bytes, kLimit) << dim;
    EXPECT_LE(ladder::registers_config(dim).shared_bytes(), kLimit) << dim;
    EXPECT_LE(ladder::pipelined_config(dim).shared_bytes(), kLimit) << dim;
    EXPECT_LE(ladder::fp8_config(dim).shared_bytes(), kLimit) << dim;
  }
}

}  // namespace
}  // namespace tessera::cuda::sm80
