// Bad devices, workspaces and structs: see bad_input_test.cpp.
#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda/runtime/runtime.hpp"
#include "tests/unit/bad_input.hpp"

namespace tessera::bad_input {
namespace {

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
    {"short_struct",
     [](Fixture& f) { f.problem.struct_size = offsetof(tessera_attention, query_offsets) - 1; },
     kInvalid,
     {"problem.struct_size"}},
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
}  // namespace tessera::bad_input
