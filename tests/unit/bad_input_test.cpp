// Every kind of bad tensor and option, one by one: the status, the sentence (field, value, what is accepted),
// and that neither output nor lse was touched. bad_device_test.cpp has devices, workspaces and structs.
#include "tests/unit/bad_input.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tessera::bad_input {

TEST_P(BadInputTest, IsRefusedWithASentenceAndTouchesNothing) {
  Fixture f;
  GetParam().spoil(f);
  const std::string where = GetParam().name;
  ASSERT_EQ(tessera_attend(&f.problem, &f.device), GetParam().status)
      << where << ": " << tessera_last_error();
  const std::string sentence = tessera_last_error();
  for (const std::string& word : GetParam().words) {
    EXPECT_NE(sentence.find(word), std::string::npos)
        << where << ": '" << word << "' is not in: " << sentence;
  }
  for (float x : f.o) ASSERT_EQ(x, kUntouched) << where;
  for (float x : f.lse) ASSERT_EQ(x, kUntouched) << where;
  for (char x : f.room) ASSERT_EQ(x, 1) << where;
}

namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 2;

const BadInput kPointers[] = {
    {"null_query", [](Fixture& f) { f.problem.query.data = nullptr; }, kInvalid, {"query.data", "null"}},
    {"null_key", [](Fixture& f) { f.problem.key.data = nullptr; }, kInvalid, {"key.data", "null"}},
    {"null_value", [](Fixture& f) { f.problem.value.data = nullptr; }, kInvalid, {"value.data", "null"}},
    {"null_output", [](Fixture& f) { f.problem.output.data = nullptr; }, kInvalid, {"output.data", "null"}},
    {"null_lse", [](Fixture& f) { f.problem.lse.data = nullptr; }, kInvalid, {"lse.data", "null"}},
    {"null_mask",
     [](Fixture& f) {
       f.add_mask();
       f.problem.mask.tensor.data = nullptr;
     },
     kInvalid,
     {"mask.tensor.data", "null"}},
    {"misaligned_query",
     [](Fixture& f) { f.problem.query.data = reinterpret_cast<char*>(f.q.data()) + 2; },
     kInvalid,
     {"query.data", "aligned", "4-byte"}},
    {"misaligned_output",
     [](Fixture& f) { f.problem.output.data = reinterpret_cast<char*>(f.o.data()) + 1; },
     kInvalid,
     {"output.data", "aligned"}},
    {"misaligned_lengths",
     [](Fixture& f) {
       f.add_lengths();
       f.problem.key_lengths.data = reinterpret_cast<char*>(f.lengths.data()) + 1;
     },
     kInvalid,
     {"key_lengths.data", "aligned"}},
    {"output_is_query",
     [](Fixture& f) { f.problem.output.data = f.q.data(); },
     kInvalid,
     {"output overlaps query"}},
    {"query_tail_in_output",
     [](Fixture& f) {
       f.problem.query = f.problem.output;
       f.problem.query.data = f.o.data() + f.o.size() - 1;
     },
     kInvalid,
     {"output overlaps query"}},
    {"lse_in_output", [](Fixture& f) { f.problem.lse.data = f.o.data(); }, kInvalid, {"lse overlaps output"}},
    {"lse_is_sinks",
     [](Fixture& f) {
       f.add_sinks();
       f.problem.sinks.data = f.lse.data();
     },
     kInvalid,
     {"lse overlaps sinks"}},
};

const BadInput kShapes[] = {
    {"rank_3_query", [](Fixture& f) { f.problem.query.rank = 3; }, kInvalid, {"query.rank is 3", "4"}},
    {"rank_0_key", [](Fixture& f) { f.problem.key.rank = 0; }, kInvalid, {"key.rank is 0"}},
    {"rank_5_value", [](Fixture& f) { f.problem.value.rank = 5; }, kInvalid, {"value.rank is 5"}},
    {"negative_rank", [](Fixture& f) { f.problem.output.rank = -1; }, kInvalid, {"output.rank is -1"}},
    {"rank_4_lse", [](Fixture& f) { f.problem.lse.rank = 4; }, kInvalid, {"lse.rank is 4", "3"}},
    {"batch_key",
     [](Fixture& f) { f.problem.key.shape[0] = 1; },
     kInvalid,
     {"key.shape[0] is 1", "batch is 2"}},
    {"batch_value", [](Fixture& f) { f.problem.value.shape[0] = 1; }, kInvalid, {"value.shape[0] is 1"}},
    {"batch_output", [](Fixture& f) { f.problem.output.shape[0] = 1; }, kInvalid, {"output.shape[0] is 1"}},
    {"heads_value", [](Fixture& f) { f.problem.value.shape[1] = 1; }, kInvalid, {"value.shape[1] is 1", "2"}},
    {"heads_output",
     [](Fixture& f) { f.problem.output.shape[1] = 2; },
     kInvalid,
     {"output.shape[1] is 2", "4"}},
    {"heads_not_multiple",
     [](Fixture& f) { f.problem.query.shape[1] = f.problem.output.shape[1] = 3; },
     kInvalid,
     {"key.shape[1] is 2", "3 heads", "multiple"}},
    {"more_kv_heads",
     [](Fixture& f) { f.problem.query.shape[1] = f.problem.output.shape[1] = 1; },
     kInvalid,
     {"key.shape[1] is 2", "1 heads", "multiple"}},
    {"no_heads", [](Fixture& f) { f.problem.query.shape[1] = 0; }, kInvalid, {"query.shape[1] is 0"}},
    {"no_kv_heads", [](Fixture& f) { f.problem.key.shape[1] = 0; }, kInvalid, {"key.shape[1] is 0"}},
    {"keys_differ", [](Fixture& f) { f.problem.value.shape[2] = 4; }, kInvalid, {"value.shape[2] is 4", "5"}},
    {"queries_differ",
     [](Fixture& f) { f.problem.output.shape[2] = 2; },
     kInvalid,
     {"output.shape[2] is 2", "3"}},
    {"dim_differs", [](Fixture& f) { f.problem.key.shape[3] = 4; }, kInvalid, {"key.shape[3] is 4", "8"}},
    {"value_dim_differs",
     [](Fixture& f) { f.problem.output.shape[3] = 4; },
     kInvalid,
     {"output.shape[3] is 4", "8"}},
    {"dim_zero",
     [](Fixture& f) { f.problem.query.shape[3] = f.problem.key.shape[3] = 0; },
     kInvalid,
     {"query.shape[3] is 0", "1 to 1024"}},
    {"dim_too_large",
     [](Fixture& f) {
       f.problem.query = tessera_tensor_4d(f.q.data(), TESSERA_F32, 2, 4, 3, 1025);
       f.problem.key = tessera_tensor_4d(f.k.data(), TESSERA_F32, 2, 2, 5, 1025);
     },
     kInvalid,
     {"query.shape[3] is 1025", "1 to 1024"}},
    {"value_dim_zero", [](Fixture& f) { f.problem.value.shape[3] = 0; }, kInvalid, {"value.shape[3] is 0"}},
    {"negative_size", [](Fixture& f) { f.problem.key.shape[2] = -5; }, kInvalid, {"key.shape[2] is -5"}},
    {"lse_queries", [](Fixture& f) { f.problem.lse.shape[2] = 4; }, kInvalid, {"lse.shape[2] is 4", "3"}},
    {"mask_keys",
     [](Fixture& f) {
       f.add_mask();
       f.problem.mask.tensor.shape[3] = 4;
     },
     kInvalid,
     {"mask.tensor.shape[3] is 4", "1 or 5"}},
    {"mask_rank_0",
     [](Fixture& f) {
       f.add_mask();
       f.problem.mask.tensor.rank = 0;
     },
     kInvalid,
     {"mask.tensor.rank is 0", "1 to 4"}},
    {"lengths_batch",
     [](Fixture& f) {
       f.add_lengths();
       f.problem.key_lengths.shape[0] = 1;
     },
     kInvalid,
     {"key_lengths.shape[0] is 1", "2"}},
    {"alibi_heads",
     [](Fixture& f) {
       f.add_alibi();
       f.problem.alibi_slopes.shape[0] = 3;
     },
     kInvalid,
     {"alibi_slopes.shape[0] is 3", "4"}},
    {"sinks_heads",
     [](Fixture& f) {
       f.add_sinks();
       f.problem.sinks.shape[0] = 8;
     },
     kInvalid,
     {"sinks.shape[0] is 8", "4"}},
};

const BadInput kStrides[] = {
    {"negative_stride",
     [](Fixture& f) { f.problem.query.strides[1] = -24; },
     kInvalid,
     {"query.strides[1] is -24"}},
    {"last_not_contiguous",
     [](Fixture& f) { f.problem.key.strides[3] = 2; },
     kInvalid,
     {"key.strides[3] is 2", "1"}},
    {"stride_overflow",
     [](Fixture& f) { f.problem.value.strides[2] = kHuge; },
     kInvalid,
     {"value", "63 bits"}},
    {"size_overflow",
     [](Fixture& f) {
       f.problem.query.shape[0] = kHuge;
       f.problem.query.shape[2] = kHuge;
     },
     kInvalid,
     {"query", "elements", "63 bits"}},
    {"beyond_address_space",
     [](Fixture& f) { f.problem.key.strides[0] = std::numeric_limits<std::int64_t>::max() - 1000; },
     kInvalid,
     {"key", "address space"}},
    {"output_stride_zero",
     [](Fixture& f) { f.problem.output.strides[2] = 0; },
     kInvalid,
     {"output.strides[2] is 0", "overlap each other"}},
    {"output_rows_overlap",
     [](Fixture& f) { f.problem.output.strides[2] = 7; },
     kInvalid,
     {"output.strides[2] is 7", "at least 8"}},
    {"lse_stride_zero", [](Fixture& f) { f.problem.lse.strides[0] = 0; }, kInvalid, {"lse.strides[0] is 0"}},
};

const BadInput kTypes[] = {
    {"unknown_dtype", [](Fixture& f) { f.problem.query.dtype = 99; }, kInvalid, {"query.dtype is 99", "f32"}},
    {"zero_dtype", [](Fixture& f) { f.problem.value.dtype = 0; }, kInvalid, {"value.dtype is 0", "f32"}},
    {"bool_query",
     [](Fixture& f) { f.problem.query.dtype = TESSERA_BOOL; },
     kInvalid,
     {"query.dtype is bool"}},
    {"fp8_beside_f32",
     [](Fixture& f) { f.problem.query.dtype = TESSERA_F8E4M3; },
     kInvalid,
     {"key.dtype is f32", "query.dtype is f8e4m3"}},
    {"fp8_output",
     [](Fixture& f) { f.problem.output.dtype = TESSERA_F8E4M3; },
     kInvalid,
     {"output.dtype is f8e4m3", "accepted: f32, f16, bf16"}},
    {"mixed_dtypes",
     [](Fixture& f) { f.problem.key.dtype = TESSERA_BF16; },
     kInvalid,
     {"key.dtype is bf16", "query.dtype is f32"}},
    {"f16_output",
     [](Fixture& f) { f.problem.output.dtype = TESSERA_F16; },
     kInvalid,
     {"output.dtype is f16"}},
    {"f16_lse", [](Fixture& f) { f.problem.lse.dtype = TESSERA_F16; }, kInvalid, {"lse.dtype is f16", "f32"}},
    {"i32_mask",
     [](Fixture& f) {
       f.add_mask();
       f.problem.mask.tensor.dtype = TESSERA_I32;
     },
     kInvalid,
     {"mask.tensor.dtype is i32", "bool"}},
    {"f32_lengths",
     [](Fixture& f) {
       f.add_lengths();
       f.problem.key_lengths.dtype = TESSERA_F32;
     },
     kInvalid,
     {"key_lengths.dtype is f32", "i32"}},
    {"f16_sinks",
     [](Fixture& f) {
       f.add_sinks();
       f.problem.sinks.dtype = TESSERA_F16;
     },
     kInvalid,
     {"sinks.dtype is f16", "f32"}},
};

const BadInput kOptions[] = {
    {"nan_scale", [](Fixture& f) { f.problem.scale = std::nanf(""); }, kInvalid, {"scale is nan", "finite"}},
    {"inf_scale", [](Fixture& f) { f.problem.scale = INFINITY; }, kInvalid, {"scale is inf"}},
    {"negative_softcap", [](Fixture& f) { f.problem.softcap = -1; }, kInvalid, {"softcap is -1"}},
    {"nan_softcap", [](Fixture& f) { f.problem.softcap = std::nanf(""); }, kInvalid, {"softcap is nan"}},
    {"unknown_align",
     [](Fixture& f) { f.problem.mask.align = 3; },
     kInvalid,
     {"mask.align is 3", "top-left"}},
    {"negative_left",
     [](Fixture& f) {
       f.problem.mask.align = TESSERA_ALIGN_TOP_LEFT;
       f.problem.mask.left = -2;
     },
     kInvalid,
     {"mask.left is -2"}},
    {"window_without_align",
     [](Fixture& f) { f.problem.mask.left = 4; },
     kInvalid,
     {"mask.left is 4", "align"}},
    {"alibi_without_align", [](Fixture& f) { f.add_alibi(); }, kInvalid, {"alibi_slopes", "mask.align"}},
    {"length_too_long",
     [](Fixture& f) {
       f.add_lengths();
       f.lengths[1] = 6;
     },
     kInvalid,
     {"key_lengths[1] is 6", "0 to 5"}},
    {"length_negative",
     [](Fixture& f) {
       f.add_lengths();
       f.lengths[0] = -1;
     },
     kInvalid,
     {"key_lengths[0] is -1"}},
};

INSTANTIATE_TEST_SUITE_P(Pointers, BadInputTest, testing::ValuesIn(kPointers), test_name);
INSTANTIATE_TEST_SUITE_P(Shapes, BadInputTest, testing::ValuesIn(kShapes), test_name);
INSTANTIATE_TEST_SUITE_P(Strides, BadInputTest, testing::ValuesIn(kStrides), test_name);
INSTANTIATE_TEST_SUITE_P(Types, BadInputTest, testing::ValuesIn(kTypes), test_name);
INSTANTIATE_TEST_SUITE_P(Options, BadInputTest, testing::ValuesIn(kOptions), test_name);

// A plan that was kept from a good call is no excuse: the addresses are each call's own.
TEST(BadInput, OverlapIsRefusedAfterAGoodCallOfTheSameShape) {
  Fixture f;
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  ASSERT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
  ASSERT_EQ(tessera_plan(&f.problem, &f.device, &plan), TESSERA_OK);
  f.problem.output.data = f.q.data();
  EXPECT_EQ(tessera_plan(&f.problem, &f.device, &plan), kInvalid);
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), kInvalid);
  EXPECT_STREQ(tessera_last_error(), "output overlaps query in memory; results need memory of their own");
  char text[64];
  tessera_explain(&f.problem, &f.device, text, sizeof text);
  EXPECT_EQ(std::string(text).rfind("invalid argument: output overlaps query", 0), 0u) << text;
  f.problem.output.data = reinterpret_cast<void*>(UINTPTR_MAX - 15);
  EXPECT_EQ(tessera_plan(&f.problem, &f.device, &plan), kInvalid);
}

TEST(BadInput, TheFixtureItselfIsValid) {
  Fixture f;
  f.problem.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  f.add_mask();
  f.add_lengths();
  f.add_alibi();
  f.add_sinks();
  f.add_workspace();
  ASSERT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_OK) << tessera_last_error();
  for (float x : f.o) EXPECT_NE(x, kUntouched);
  for (float x : f.lse) EXPECT_NE(x, kUntouched);
}

}  // namespace
}  // namespace tessera::bad_input
