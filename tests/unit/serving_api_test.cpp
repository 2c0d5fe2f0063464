// The serving interface from C++ and C: small batches worked out by hand, structs of an older header, plans
// that read no memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <tessera/tessera.hpp>
#include <vector>

namespace {

const float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kLn2 = std::log(2.0f), kLn3 = std::log(3.0f);

// Rows 1 and 2 belong to entry 0 (weights 1 : 3 of 4 and 8), row 3 to entry 2 (1 : 2 of 3 and 6), the others
// to none.
struct Small {
  std::vector<float> q = {kNan, 1, 1, 1, kNan};
  std::vector<float> k = {0, kLn2, kNan, kNan, 0, kLn3, kNan, kNan};
  std::vector<float> v = {3, 6, kNan, kNan, 4, 8, kNan, kNan};
  std::vector<float> o = std::vector<float>(5, -1), lse = std::vector<float>(5, -1);
  std::vector<std::int64_t> offsets = {1, 3, 3, 4};
  std::vector<std::int32_t> lengths = {2, 3, 2}, table = {2, -1, 9, 9, 0, -1};

  tessera::Attention problem() {
    return {.query = tessera::tensor(q.data(), {1, 1, 5, 1}),
            .key = tessera::tensor(k.data(), {4, 1, 2, 1}),
            .value = tessera::tensor(v.data(), {4, 1, 2, 1}),
            .output = tessera::tensor(o.data(), {1, 1, 5, 1}),
            .lse = tessera::tensor(lse.data(), {1, 1, 5}),
            .scale = 1.0f,
            .key_lengths = tessera::tensor(lengths.data(), {3}),
            .query_offsets = tessera::tensor(offsets.data(), {4}),
            .page_table = tessera::tensor(table.data(), {3, 2})};
  }
};

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t n = 0; n < got.size(); ++n) {
    if (std::isinf(want[n])) {
      EXPECT_EQ(got[n], want[n]) << n;
    } else {
      EXPECT_NEAR(got[n], want[n], 1e-5f) << n;
    }
  }
}

TEST(ServingApi, APagedRaggedBatchByHand) {
  Small s;
  const tessera::Status status = tessera::attend(s.problem(), tessera::cpu());
  ASSERT_TRUE(status) << status.message();
  expect_near(s.o, {0, 7, 7, 5, 0});
  expect_near(s.lse, {-kInfinity, std::log(4.0f), std::log(4.0f), kLn3, -kInfinity});
}

TEST(ServingApi, PriorPartsAndTheirMerge) {
  Small s;
  std::vector<float> output = {1, 10, kNan, 5, 1}, lse = {1, std::log(4.0f), -kInfinity, kLn3, 1};
  tessera::Attention p = s.problem();
  p.prior_output = tessera::tensor(output.data(), {1, 1, 5, 1});
  p.prior_lse = tessera::tensor(lse.data(), {1, 1, 5});
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  expect_near(s.o, {0, 8.5, 7, 5, 0});
  expect_near(s.lse, {-kInfinity, std::log(8.0f), std::log(4.0f), std::log(6.0f), -kInfinity});
  // Of no keys the parts alone are left.
  s.lengths = {0, 0, 0};
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  expect_near(s.o, {0, 10, 0, 5, 0});
  expect_near(s.lse, {-kInfinity, std::log(4.0f), -kInfinity, kLn3, -kInfinity});
  // NaN and +inf are no lse of anything.
  for (const float bad : {kNan, kInfinity}) {
    lse[1] = bad;
    ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
    EXPECT_TRUE(std::isnan(s.o[1]) && std::isnan(s.lse[1]));
    EXPECT_EQ(s.o[2], 0);
  }
}

// Cutting the keys between two calls and merging gives what one call gives.
TEST(ServingApi, TwoHalvesMergeToTheWhole) {
  constexpr std::int64_t kRows = 3, kKeys = 50, kDim = 16;
  std::vector<float> q(kRows * kDim), k(kKeys * kDim), v(kKeys * kDim);
  for (std::size_t n = 0; n < q.size(); ++n) q[n] = std::sin(static_cast<float>(n));
  for (std::size_t n = 0; n < k.size(); ++n)
    k[n] = std::cos(static_cast<float>(3 * n)), v[n] = std::sin(static_cast<float>(7 * n));
  std::vector<std::int32_t> offsets = {0, kRows}, keys = {0, kKeys};
  std::vector<float> whole(q.size()), part(q.size()), merged(q.size()), lse(kRows), whole_lse(kRows),
      part_lse(kRows);
  std::vector<float> sinks = {0.25f};
  tessera::Attention p{.query = tessera::tensor(q.data(), {1, 1, kRows, kDim}),
                       .key = tessera::tensor(k.data(), {1, 1, kKeys, kDim}),
                       .value = tessera::tensor(v.data(), {1, 1, kKeys, kDim}),
                       .output = tessera::tensor(whole.data(), {1, 1, kRows, kDim}),
                       .lse = tessera::tensor(whole_lse.data(), {1, 1, kRows}),
                       .sinks = tessera::tensor(sinks.data(), {1}),
                       .query_offsets = tessera::tensor(offsets.data(), {2}),
                       .key_offsets = tessera::tensor(keys.data(), {2})};
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  keys = {0, 20};
  p.output.data = part.data();
  p.lse.data = part_lse.data();
  p.sinks = TESSERA_TENSOR_NONE;  // in one of the calls
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  keys = {20, kKeys};
  p.output.data = merged.data();
  p.lse.data = lse.data();
  p.sinks = tessera::tensor(sinks.data(), {1});
  p.prior_output = tessera::tensor(part.data(), {1, 1, kRows, kDim});
  p.prior_lse = tessera::tensor(part_lse.data(), {1, 1, kRows});
  ASSERT_TRUE(tessera::attend(p, tessera::cpu()));
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_NEAR(merged[n], whole[n], 1e-6f) << n;
  for (std::size_t n = 0; n < lse.size(); ++n) EXPECT_NEAR(lse[n], whole_lse[n], 1e-6f) << n;
}

// An output in f32 is what the output in bf16 was rounded from.
TEST(ServingApi, OutputInF32BesideHalves) {
  constexpr std::int64_t kRows = 40, kDim = 64;
  std::vector<tessera::bf16> q(kRows * kDim), half(kRows * kDim);
  for (std::size_t n = 0; n < q.size(); ++n) q[n].bits = static_cast<std::uint16_t>(0x3f00 + n * 7 % 200);
  std::vector<float> full(kRows * kDim);
  tessera::Attention p{.query = tessera::tensor(q.data(), {1, 1, kRows, kDim}),
                       .key = tessera::tensor(q.data(), {1, 1, kRows, kDim}),
                       .value = tessera::tensor(q.data(), {1, 1, kRows, kDim}),
                       .output = tessera::tensor(half.data(), {1, 1, kRows, kDim})};
  ASSERT_TRUE(tessera::attend(p, tessera::cpu({.kernel = "cpu_scalar"})));
  p.output = tessera::tensor(full.data(), {1, 1, kRows, kDim});
  ASSERT_TRUE(tessera::attend(p, tessera::cpu({.kernel = "cpu_scalar"})));
  int between = 0;
  for (std::size_t n = 0; n < full.size(); ++n) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &full[n], sizeof bits);
    between += (bits & 0xffff) != 0;
    EXPECT_EQ((bits + 0x7fff + (bits >> 16 & 1)) >> 16, half[n].bits) << n;
  }
  EXPECT_GT(between, 1000);
}

// A program that was built before these fields: what lies behind its struct is not read, whatever it is.
TEST(ServingApi, AnOlderStructMeansWhatItMeant) {
  std::vector<float> q = {1, 2}, k = {1, 0}, v = {10, 20}, o = {-1, -1};
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  problem.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, 2, 1);
  problem.key = tessera_tensor_4d(k.data(), TESSERA_F32, 1, 1, 2, 1);
  problem.value = tessera_tensor_4d(v.data(), TESSERA_F32, 1, 1, 2, 1);
  problem.output = tessera_tensor_4d(o.data(), TESSERA_F32, 1, 1, 2, 1);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  ASSERT_EQ(tessera_attend(&problem, &cpu), TESSERA_OK);
  const std::vector<float> expected = o;
  o = {-1, -1};
  problem.struct_size = offsetof(tessera_attention, query_offsets);
  std::memset(static_cast<void*>(&problem.query_offsets), 0x5a,
              sizeof problem - offsetof(tessera_attention, query_offsets));
  ASSERT_EQ(tessera_attend(&problem, &cpu), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(o, expected);
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  EXPECT_EQ(tessera_plan(&problem, &cpu, &plan), TESSERA_OK);
  EXPECT_EQ(plan.flops, 2.0 * 4 * 2);
  problem.struct_size = sizeof problem;
  EXPECT_EQ(tessera_attend(&problem, &cpu), TESSERA_INVALID_ARGUMENT);  // now it is read
}

// Lengths, offsets and tables stand at addresses that nobody may read.
TEST(ServingApi, PlansReadNoMemory) {
  Small s;
  tessera::Attention p = s.problem();
  for (tessera::Tensor* t : {&p.query_offsets, &p.key_lengths, &p.page_table, &p.key, &p.value})
    t->data = reinterpret_cast<void*>(std::uintptr_t{64} + 4096 * static_cast<std::uintptr_t>(t->rank));
  const tessera::Plan plan = tessera::plan(p, tessera::cpu());
  ASSERT_TRUE(plan.status) << plan.status.message();
  EXPECT_EQ(plan.flops, 2.0 * 5 * 4 * 2);  // five rows, four keys that the table has room for
  EXPECT_NE(tessera::explain(p, tessera::cpu()).find("each is worked out as it would be alone"),
            std::string::npos);
}

TEST(ServingApi, InvariantIsTakenEverywhere) {
  Small s;
  tessera::Device cpu = tessera::cpu();
  cpu.invariant = 1;
  ASSERT_TRUE(tessera::attend(s.problem(), cpu));
  expect_near(s.o, {0, 7, 7, 5, 0});
}

}  // namespace
