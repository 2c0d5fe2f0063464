// What is said about every way in which there is no GPU, the wrong memory or a failed call: no driver and
// no GPU is needed to say it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "cuda/runtime/remembered.hpp"
#include "cuda/runtime/runtime.hpp"
#include "cuda/runtime/sentences.hpp"

namespace tessera::cuda::runtime {
namespace {

bool has(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

TEST(NoGpu, EachReasonHasASentenceOfItsOwn) {
  struct {
    int code;
    int driver;
    const char* says;
  } const rows[] = {
      {35, 0, "no NVIDIA driver is installed"},
      {35, 11040, "driver is too old: it knows CUDA 11.4, and this build needs 13.0"},
      {34, 13000, "stub library"},
      {100, 13000, "finds no GPU"},
      {3, 13000, "fork()"},
      {46, 13000, "exclusive use"},
      {802, 13000, "not ready"},
      {803, 13000, "different versions"},
      {804, 13000, "compatibility library"},
      {999, 13000, "an odd error (cudaErrorUnknown)"},
  };
  std::vector<std::string> seen;
  for (const auto& row : rows) {
    const std::string why = why_no_gpu({row.code, "cudaErrorUnknown", "an odd error"}, row.driver, 13000);
    EXPECT_TRUE(has(why, row.says)) << row.code << ": " << why;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), why), 0) << why;
    seen.push_back(why);
  }
}

TEST(NoGpu, BadIndexAndOldGpuAreNamed) {
  EXPECT_EQ(why_no_index(3, 1), "there is no GPU 3: this machine has one, number 0");
  EXPECT_EQ(why_no_index(8, 8), "there is no GPU 8: this machine has 8, numbers 0 to 7");
  EXPECT_EQ(why_too_old(0, "Tesla T4", 75), "GPU 0 (Tesla T4) is sm_75; sm_80 or newer is needed");
}

TEST(WrongMemory, NamesTheTensorAndThePlace) {
  EXPECT_TRUE(check_place("key", Place::gpu, 1, 1).ok());
  EXPECT_TRUE(check_place("key", Place::managed, 0, 1).ok());
  EXPECT_TRUE(check_place("key", Place::pinned_host, 0, 1).ok());
  const core::Status host = check_place("key", Place::host, 0, 1);
  EXPECT_EQ(host.code, TESSERA_INVALID_ARGUMENT);
  EXPECT_TRUE(has(host.message, "key is host memory, but device.kind is 2 (cuda)")) << host.message;
  const core::Status other = check_place("mask.tensor", Place::gpu, 2, 0);
  EXPECT_EQ(other.code, TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(other.message, "mask.tensor is memory of GPU 2, but device.index is 0");
}

TEST(WrongStream, NamesBothGpus) {
  EXPECT_TRUE(check_stream_device(1, 1).ok());
  const core::Status s = check_stream_device(1, 0);
  EXPECT_EQ(s.code, TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(s.message, "device.stream is a stream of GPU 1, but device.index is 0");
}

TEST(Failures, CarryTheRightCode) {
  EXPECT_EQ(status_code(2), TESSERA_OUT_OF_MEMORY);
  EXPECT_EQ(status_code(400), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(status_code(209), TESSERA_DEVICE_UNAVAILABLE);  // no code for this GPU in the binary
  EXPECT_EQ(status_code(100), TESSERA_DEVICE_UNAVAILABLE);
  EXPECT_EQ(status_code(700), TESSERA_INTERNAL);  // illegal address
}

TEST(Failures, ALaunchIsReportedWithItsGeometry) {
  Launch launch;
  launch.kernel = "tensor_pv";
  launch.grid[0] = 16, launch.grid[1] = 8;
  launch.threads = 128;
  launch.shared_bytes = 66560;
  const core::Status s = launch_failed(launch, {1, "cudaErrorInvalidValue", "invalid argument"});
  EXPECT_EQ(s.code, TESSERA_INTERNAL);
  for (const char* part : {"tensor_pv", "16 x 8 x 1", "128 threads", "66560 bytes", "cudaErrorInvalidValue"})
    EXPECT_TRUE(has(s.message, part)) << s.message;
  EXPECT_TRUE(
      has(launch_failed(launch, {400, "cudaErrorInvalidResourceHandle", "bad"}).message, "device.stream"));
}

TEST(HostCheck, HostMemoryIsFineWithOrWithoutADriver) {
  float memory[4] = {};
  core::Problem problem;
  problem.query.data = problem.key.data = problem.value.data = problem.output.data = memory;
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(check_on_host(problem).ok());
}

TEST(Remembered, KeepsANumberForEachFunctionAndGpuFromManyThreads) {
  static Remembered table;
  std::vector<char> functions(300);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (std::size_t n = 0; n < functions.size(); ++n)
        for (int gpu = 0; gpu < 3; ++gpu)
          table.of(&functions[n], gpu)->store(static_cast<int>(n) * 3 + gpu, std::memory_order_relaxed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t n = 0; n < functions.size(); ++n)
    for (int gpu = 0; gpu < 3; ++gpu)
      ASSERT_EQ(table.of(&functions[n], gpu)->load(), static_cast<int>(n) * 3 + gpu);
}

TEST(Remembered, AFullTableRemembersNothingMore) {
  static Remembered table;
  std::vector<char> functions(2000);
  int kept = 0;
  for (char& function : functions) kept += table.of(&function, 0) != nullptr ? 1 : 0;
  EXPECT_EQ(kept, 1024);
  EXPECT_NE(table.of(functions.data(), 0), nullptr);
}

}  // namespace
}  // namespace tessera::cuda::runtime
