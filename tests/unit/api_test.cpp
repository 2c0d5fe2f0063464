// The public interface from C++: defaults, empty problems, plans, layouts, and how errors are remembered.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tessera/tessera.hpp>
#include <thread>
#include <vector>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Two queries, two keys, one dimension: worked out by hand in the tests below.
struct Tiny {
  std::vector<float> q = {1, 2}, k = {1, 0}, v = {10, 20}, o = {-1, -1}, lse = {-1, -1};

  tessera::Attention problem() {
    return {.query = tessera::tensor(q.data(), {1, 1, 2, 1}),
            .key = tessera::tensor(k.data(), {1, 1, 2, 1}),
            .value = tessera::tensor(v.data(), {1, 1, 2, 1}),
            .output = tessera::tensor(o.data(), {1, 1, 2, 1}),
            .lse = tessera::tensor(lse.data(), {1, 1, 2})};
  }
};

TEST(Api, ComputesAHandCheckedProblem) {
  Tiny t;
  ASSERT_TRUE(tessera::attend(t.problem(), tessera::cpu()));
  // Query 1: scores 1, 0; weights e/(e+1), 1/(e+1); output (10e + 20)/(e + 1) = 12.689414.
  EXPECT_NEAR(t.o[0], 12.689414f, 1e-5f);
  EXPECT_NEAR(t.lse[0], 1.3132617f, 1e-6f);  // log(e + 1)
  // Query 2: scores 2, 0; output (10e^2 + 20)/(e^2 + 1) = 11.192029.
  EXPECT_NEAR(t.o[1], 11.192029f, 1e-5f);
  EXPECT_NEAR(t.lse[1], 2.1269280f, 1e-6f);  // log(e^2 + 1)
}

TEST(Api, CausalAlignmentIsAChoice) {
  Tiny t;
  tessera::Attention p = t.problem();
  p.mask = tessera::causal_top_left();
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_EQ(t.o[0], 10.0f);  // the first query sees the first key alone
  // One query against two keys: top-left sees key 0, bottom-right sees both.
  p.query = tessera::tensor(t.q.data(), {1, 1, 1, 1});
  p.output = tessera::tensor(t.o.data(), {1, 1, 1, 1});
  p.lse = tessera::tensor(t.lse.data(), {1, 1, 1});
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_EQ(t.o[0], 10.0f);
  p.mask = tessera::causal_bottom_right();
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_NEAR(t.o[0], 12.689414f, 1e-5f);
}

TEST(Api, ExplicitZeroScaleAveragesTheValues) {
  Tiny t;
  tessera::Attention p = t.problem();
  p.scale = 0.0f;
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_EQ(t.o[0], 15.0f);
  EXPECT_EQ(t.o[1], 15.0f);
}

// In a thread that takes subnormal numbers for 0, as -ffast-math makes the main thread of many programs.
TEST(Api, ExplicitZeroScaleSurvivesFlushToZero) {
#if defined(__SSE__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  Tiny t;
  tessera::Attention p = t.problem();
  for (tessera::Mask mask : {tessera::Mask(), tessera::causal_top_left()}) {
    p.mask = mask;
    p.scale = 0.0f;
    const bool zero = static_cast<bool>(tessera::attend(p, tessera::cpu({.threads = 1})));
    EXPECT_TRUE(zero);
    EXPECT_EQ(t.o[1], 15.0f);
    EXPECT_NEAR(t.lse[1], 0.6931472f, 1e-6f);  // log 2
    EXPECT_EQ(t.o[0], mask.align == TESSERA_ALIGN_NONE ? 15.0f : 10.0f);
  }
  // A subnormal scale is as good as 0, and no request for the default.
  p.scale = std::numeric_limits<float>::denorm_min();
  EXPECT_TRUE(tessera::attend(p, tessera::cpu({.threads = 1})));
  EXPECT_EQ(t.o[1], 15.0f);
  _mm_setcsr(before);
#else
  GTEST_SKIP() << "skipped: written for x86's control register";
#endif
}

TEST(Api, ZeroScaleAveragesWhatIsVisible) {
  Tiny t;
  tessera::Attention p = t.problem();
  p.mask = tessera::causal_top_left();
  p.scale = 0.0f;
  EXPECT_EQ(p.to_c().scale, TESSERA_SCALE_ZERO);
  EXPECT_EQ(TESSERA_SCALE_ZERO, std::numeric_limits<float>::min());
  for (const char* kernel : {static_cast<const char*>(nullptr), "cpu_scalar"}) {
    ASSERT_TRUE(tessera::attend(p, tessera::cpu({.kernel = kernel})));
    EXPECT_EQ(t.o[0], 10.0f);
    EXPECT_EQ(t.lse[0], 0.0f);
    EXPECT_EQ(t.o[1], 15.0f);
    EXPECT_NEAR(t.lse[1], 0.6931472f, 1e-6f);
  }
  // 0 * infinity is NaN, as the formula says; a hidden key stays hidden.
  t.k[1] = kInfinity;
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_EQ(t.o[0], 10.0f);
  EXPECT_TRUE(std::isnan(t.o[1]));
}

TEST(Api, EmptyBatchOrQueryIsANoOp) {
  Tiny t;
  tessera::Attention p = t.problem();
  p.query = tessera::tensor(t.q.data(), {1, 1, 0, 1});
  p.output = tessera::tensor(t.o.data(), {1, 1, 0, 1});
  p.lse = tessera::tensor(t.lse.data(), {1, 1, 0});
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  p = {.query = tessera::tensor(static_cast<float*>(nullptr), {0, 2, 3, 4}),
       .key = tessera::tensor(static_cast<float*>(nullptr), {0, 2, 5, 4}),
       .value = tessera::tensor(static_cast<float*>(nullptr), {0, 2, 5, 4}),
       .output = tessera::tensor(static_cast<float*>(nullptr), {0, 2, 3, 4})};
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_EQ(t.o[0], -1.0f);
  EXPECT_EQ(t.lse[0], -1.0f);
}

TEST(Api, NoKeysGiveZeroAndMinusInfinity) {
  Tiny t;
  tessera::Attention p = t.problem();
  p.key = tessera::tensor(static_cast<float*>(nullptr), {1, 1, 0, 1});
  p.value = tessera::tensor(static_cast<float*>(nullptr), {1, 1, 0, 1});
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_EQ(t.o[0], 0.0f);
  EXPECT_EQ(t.o[1], 0.0f);
  EXPECT_EQ(t.lse[0], -kInfinity);
  EXPECT_EQ(t.lse[1], -kInfinity);
}

TEST(Api, PlanNamesAKernelAndCountsTheWork) {
  std::vector<float> memory(4 * 64 * 8);
  tessera::Attention p{.query = tessera::tensor(memory.data(), {1, 1, 64, 8}),
                       .key = tessera::tensor(memory.data() + 512, {1, 1, 64, 8}),
                       .value = tessera::tensor(memory.data() + 1024, {1, 1, 64, 8}),
                       .output = tessera::tensor(memory.data() + 1536, {1, 1, 64, 8})};
  tessera::Plan plan = tessera::plan(p, tessera::cpu({.threads = 1}));
  ASSERT_TRUE(plan.status) << plan.status.message();
  EXPECT_EQ(std::string(plan.kernel).substr(0, 4), "cpu_");
  EXPECT_NE(std::string(plan.reason), "");
  EXPECT_EQ(plan.threads, 1);
  EXPECT_EQ(plan.flops, 4.0 * 64 * 64 * 8);
  EXPECT_EQ(plan.bytes, 4.0 * 64 * 8 * 4);
  p.mask = tessera::causal_top_left();
  EXPECT_EQ(tessera::plan(p, tessera::cpu()).flops, 4.0 * (64 * 65 / 2) * 8);
  EXPECT_NE(tessera::explain(p, tessera::cpu()).find(plan.kernel), std::string::npos);
}

// A helper would wake up when the work is done; only a pool of the user's own is asked all the same.
TEST(Api, SmallWorkStaysWithTheCaller) {
  std::vector<float> memory(4 * 8 * 256 * 64);
  const auto tensor = [&](std::size_t at, std::int64_t rows) {
    return tessera::tensor(memory.data() + at * memory.size() / 4, {1, 8, rows, 64});
  };
  const auto threads = [&](std::int64_t rows) {
    return tessera::plan({.query = tensor(0, rows),
                          .key = tensor(1, rows),
                          .value = tensor(2, rows),
                          .output = tensor(3, rows)},
                         tessera::cpu({.threads = 2}))
        .threads;
  };
  EXPECT_EQ(threads(4), 1);
  EXPECT_EQ(threads(256), 2);
}

TEST(Api, ExplainTellsWhyNot) {
  Tiny t;
  tessera::Attention p = t.problem();
  p.scale = std::nanf("");
  EXPECT_EQ(tessera::explain(p, tessera::cpu()).rfind("invalid argument: scale is nan", 0), 0u);
  char text[8];
  const tessera_attention c = p.to_c();
  const tessera_device d = tessera::cpu();
  EXPECT_GT(tessera_explain(&c, &d, text, sizeof text), sizeof text);
  EXPECT_STREQ(text, "invalid");  // cut to capacity, terminated
}

TEST(Api, TensorRefusesTooManyDimensions) {
  Tiny t;
  tessera::Attention p = t.problem();
  p.query = tessera::tensor(t.q.data(), {1, 1, 1, 2, 1});
  tessera::Status status = tessera::attend(p, tessera::cpu());
  EXPECT_EQ(status.code(), TESSERA_INVALID_ARGUMENT);
  EXPECT_NE(status.message().find("query.rank"), std::string::npos) << status.message();
}

TEST(Api, StridesDescribeAnyLayout) {
  // [batch 1, rows 2, heads 2, dim 1] memory seen as [1, 2, 2, 1]: head h, row s at s * 2 + h.
  std::vector<float> q = {1, 5, 2, 6}, k = {1, 0, 0, 0}, v = {10, 1, 20, 2}, o(4, -1.0f);
  const auto bshd = [](std::vector<float>& x) {
    return tessera::tensor(x.data(), {1, 2, 2, 1}, {4, 1, 2, 1});
  };
  tessera::Attention p{.query = bshd(q), .key = bshd(k), .value = bshd(v), .output = bshd(o)};
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  EXPECT_NEAR(o[0], 12.689414f, 1e-5f);  // head 0: the hand-checked problem above
  EXPECT_NEAR(o[2], 11.192029f, 1e-5f);
  EXPECT_EQ(o[1], 1.5f);  // head 1: all keys 0, so plain averages
  EXPECT_EQ(o[3], 1.5f);
}

TEST(Api, EachThreadRemembersItsOwnError) {
  Tiny t;
  tessera::Attention bad = t.problem();
  bad.softcap = -1;
  ASSERT_FALSE(tessera::attend(bad, tessera::cpu()));
  std::string other;
  std::thread([&] { other = tessera_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_NE(std::string(tessera_last_error()).find("softcap"), std::string::npos);
}

TEST(Api, NamesAndSizes) {
  EXPECT_STREQ(tessera_dtype_name(TESSERA_BF16), "bf16");
  EXPECT_STREQ(tessera_dtype_name(1234), "unknown dtype");
  EXPECT_EQ(tessera_dtype_size(TESSERA_F16), 2u);
  EXPECT_EQ(tessera_dtype_size(-1), 0u);
  EXPECT_STREQ(tessera_status_name(TESSERA_UNSUPPORTED), "unsupported");
  EXPECT_STREQ(tessera_status_name(77), "unknown status");
  EXPECT_STREQ(tessera_version(), "0.1.0");
}

}  // namespace
