// Every kind of bad input, one by one: the status, the sentence (field, value, what is accepted), and
// that neither output nor lse was touched.
#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cuda/runtime/runtime.hpp"

namespace {

constexpr float kUntouched = -777.0f;

// A small valid problem (batch 2, heads 4/2, queries 3, keys 5, dim 8) with every option's memory at hand.
struct Fixture {
  std::vector<float> q = std::vector<float>(2 * 4 * 3 * 8, 0.5f);
  std::vector<float> k = std::vector<float>(2 * 2 * 5 * 8, 0.25f);
  std::vector<float> v = std::vector<float>(2 * 2 * 5 * 8, 1.0f);
  std::vector<float> o = std::vector<float>(2 * 4 * 3 * 8, kUntouched);
  std::vector<float> lse = std::vector<float>(2 * 4 * 3, kUntouched);
  std::vector<float> mask = std::vector<float>(2 * 4 * 3 * 5, 0.0f);
  std::vector<float> per_head = std::vector<float>(2 * 4, 0.5f);
  std::vector<std::int32_t> lengths = {5, 3};
  std::vector<char> room;  // the workspace and some more
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  tessera_device device = TESSERA_DEVICE_INIT;

  Fixture() {
    problem.query = tessera_tensor_4d(q.data(), TESSERA_F32, 2, 4, 3, 8);
    problem.key = tessera_tensor_4d(k.data(), TESSERA_F32, 2, 2, 5, 8);
    problem.value = tessera_tensor_4d(v.data(), TESSERA_F32, 2, 2, 5, 8);
    problem.output = tessera_tensor_4d(o.data(), TESSERA_F32, 2, 4, 3, 8);
    problem.lse = {lse.data(), TESSERA_F32, 3, {2, 4, 3, 0}, {12, 3, 1, 0}};
  }
  // As much as the call takes, aligned, with 4 KB behind it.
  char* add_workspace() {
    device.workspace_bytes = SIZE_MAX;
    tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
    EXPECT_EQ(tessera_plan(&problem, &device, &plan), TESSERA_OK) << tessera_last_error();
    device.workspace_bytes = static_cast<std::size_t>(plan.workspace_bytes);
    room.resize(device.workspace_bytes + 4096 + 256, 1);
    device.workspace = room.data() + (256 - reinterpret_cast<std::uintptr_t>(room.data()) % 256);
    return static_cast<char*>(device.workspace);
  }
  void add_mask() { problem.mask.tensor = tessera_tensor_4d(mask.data(), TESSERA_F32, 2, 4, 3, 5); }
  void add_lengths() { problem.key_lengths = {lengths.data(), TESSERA_I32, 1, {2, 0, 0, 0}, {1, 0, 0, 0}}; }
  void add_alibi() { problem.alibi_slopes = {per_head.data(), TESSERA_F32, 1, {4, 0, 0, 0}, {1, 0, 0, 0}}; }
  void add_sinks() { problem.sinks = {per_head.data(), TESSERA_F32, 1, {4, 0, 0, 0}, {1, 0, 0, 0}}; }
};

struct BadInput {
  std::string name;
  std::function<void(Fixture&)> spoil;
  tessera_status status;
  std::vector<std::string> words;  // each must stand in the sentence
};

void PrintTo(const BadInput& bad, std::ostream* os) { *os << bad.name; }

class BadInputTest : public testing::TestWithParam<BadInput> {};

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

constexpr auto kInvalid = TESSERA_INVALID_ARGUMENT;
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
    {"fp8",
     [](Fixture& f) { f.problem.query.dtype = TESSERA_F8E4M3; },
     TESSERA_UNSUPPORTED,
     {"query.dtype is f8e4m3", "reserved"}},
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

const BadInput kDevices[] = {
    {"unknown_device", [](Fixture& f) { f.device.kind = 7; }, kInvalid, {"device.kind is 7", "cpu"}},
    {"cpu_index", [](Fixture& f) { f.device.index = 1; }, kInvalid, {"device.index is 1"}},
    {"negative_index", [](Fixture& f) { f.device.index = -1; }, kInvalid, {"device.index is -1"}},
    {"cpu_stream", [](Fixture& f) { f.device.stream = &f; }, kInvalid, {"device.stream"}},
    {"negative_threads", [](Fixture& f) { f.device.threads = -1; }, kInvalid, {"device.threads is -1"}},
    {"too_many_threads",
     [](Fixture& f) { f.device.threads = 5000; },
     kInvalid,
     {"device.threads is 5000", "1024"}},
    {"one_thread_too_many",
     [](Fixture& f) { f.device.threads = TESSERA_MAX_THREADS + 1; },
     kInvalid,
     {"device.threads is 1025", "1024"}},
    {"pool_for_a_gpu",
     [](Fixture& f) {
       f.device.kind = TESSERA_CUDA;
       f.device.run_tasks = [](void*, std::int64_t, tessera_task, void*) {};
     },
     kInvalid,
     {"device.run_tasks", "GPU"}},
    {"unknown_kernel", [](Fixture& f) { f.device.kernel = "warp9"; }, kInvalid, {"warp9", "cpu_scalar"}},
    {"empty_struct",
     [](Fixture& f) { f.problem.struct_size = 0; },
     kInvalid,
     {"problem.struct_size is 0", "_INIT"}},
    {"short_struct", [](Fixture& f) { f.problem.struct_size -= 1; }, kInvalid, {"problem.struct_size"}},
    {"huge_struct", [](Fixture& f) { f.device.struct_size = SIZE_MAX; }, kInvalid, {"device.struct_size"}},
};

const BadInput kWorkspaces[] = {
    {"too_small_workspace",
     [](Fixture& f) {
       f.add_workspace();
       f.device.workspace_bytes -= 1;
     },
     kInvalid,
     {"device.workspace_bytes is ", " are needed"}},
    {"misaligned_workspace",
     [](Fixture& f) { f.device.workspace = f.add_workspace() + 128; },
     kInvalid,
     {"device.workspace is 0x", "a multiple of 256"}},
    {"workspace_over_output",
     [](Fixture& f) { f.problem.output.data = f.add_workspace(); },
     kInvalid,
     {"device.workspace overlaps output"}},
    {"workspace_over_key",
     [](Fixture& f) { f.problem.key.data = f.add_workspace() + f.device.workspace_bytes - 16; },
     kInvalid,
     {"device.workspace overlaps key"}},
    {"workspace_over_sinks",
     [](Fixture& f) {
       f.add_sinks();
       f.problem.sinks.data = f.add_workspace();
     },
     kInvalid,
     {"device.workspace overlaps sinks"}},
    {"null_workspace",
     [](Fixture& f) {
       f.add_workspace();
       f.device.workspace = nullptr;
     },
     kInvalid,
     {"device.workspace is null", "device.workspace_bytes is "}},
    {"workspace_without_bytes",
     [](Fixture& f) {
       f.add_workspace();
       f.device.workspace_bytes = 0;
     },
     kInvalid,
     {"device.workspace is set", "device.workspace_bytes is 0"}},
};

std::string test_name(const testing::TestParamInfo<BadInput>& param) { return param.param.name; }
INSTANTIATE_TEST_SUITE_P(Pointers, BadInputTest, testing::ValuesIn(kPointers), test_name);
INSTANTIATE_TEST_SUITE_P(Shapes, BadInputTest, testing::ValuesIn(kShapes), test_name);
INSTANTIATE_TEST_SUITE_P(Strides, BadInputTest, testing::ValuesIn(kStrides), test_name);
INSTANTIATE_TEST_SUITE_P(Types, BadInputTest, testing::ValuesIn(kTypes), test_name);
INSTANTIATE_TEST_SUITE_P(Options, BadInputTest, testing::ValuesIn(kOptions), test_name);
INSTANTIATE_TEST_SUITE_P(Devices, BadInputTest, testing::ValuesIn(kDevices), test_name);
INSTANTIATE_TEST_SUITE_P(Workspaces, BadInputTest, testing::ValuesIn(kWorkspaces), test_name);

TEST(BadInput, NullStructsAreRefused) {
  Fixture f;
  tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
  EXPECT_EQ(tessera_attend(nullptr, &f.device), kInvalid);
  EXPECT_STREQ(tessera_last_error(), "problem is null");
  EXPECT_EQ(tessera_attend(&f.problem, nullptr), kInvalid);
  EXPECT_STREQ(tessera_last_error(), "device is null");
  EXPECT_EQ(tessera_plan(&f.problem, &f.device, nullptr), kInvalid);
  EXPECT_STREQ(tessera_last_error(), "plan is null");
  EXPECT_EQ(tessera_plan(nullptr, &f.device, &plan), kInvalid);
  EXPECT_GT(tessera_explain(nullptr, nullptr, nullptr, 0), 0u);
}

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

// Whatever is missing, the build, the driver or the GPU, is said; with a GPU, host memory is the mistake.
TEST(BadInput, HostMemoryNeverGoesToAGpu) {
  Fixture f;
  f.device.kind = TESSERA_CUDA;
  std::string why;
  const bool gpu = tessera::cuda::runtime::find_gpu(0, &why) != nullptr;
  const tessera_status status = tessera_attend(&f.problem, &f.device);
  const std::string sentence = tessera_last_error();
  if (gpu) {
    EXPECT_TRUE(status == TESSERA_INVALID_ARGUMENT || status == TESSERA_UNSUPPORTED) << sentence;
  } else {
    EXPECT_EQ(status, TESSERA_DEVICE_UNAVAILABLE);
    EXPECT_EQ(sentence, "device.kind is 2 (cuda), but " + why);
  }
  f.device.index = 4096;
  EXPECT_EQ(tessera_attend(&f.problem, &f.device), TESSERA_DEVICE_UNAVAILABLE) << tessera_last_error();
  for (float x : f.o) ASSERT_EQ(x, kUntouched);
  for (float x : f.lse) ASSERT_EQ(x, kUntouched);
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

// A newer caller with fields that this library does not know: fine while they are zero.
TEST(BadInput, LongerStructsMustBeZeroPastTheEnd) {
  Fixture f;
  struct Newer {
    tessera_device device;
    std::int64_t unknown[2];
  } newer = {f.device, {0, 0}};
  newer.device.struct_size = sizeof(Newer);
  EXPECT_EQ(tessera_attend(&f.problem, &newer.device), TESSERA_OK) << tessera_last_error();
  newer.unknown[1] = 1;
  EXPECT_EQ(tessera_attend(&f.problem, &newer.device), kInvalid);
  EXPECT_NE(std::string(tessera_last_error()).find("older"), std::string::npos) << tessera_last_error();
}

}  // namespace
