// What is said about every way in which there is no GPU, the wrong memory or a failed call: no driver and
// no GPU is needed to say it.
#include <gtest/gtest.h>

#include <string>

#include "cpu/host_memory.hpp"
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
  EXPECT_TRUE(check_memory_kind("key", MemoryKind::gpu, 1, 1).ok());
  EXPECT_TRUE(check_memory_kind("key", MemoryKind::managed, 0, 1).ok());
  EXPECT_TRUE(check_memory_kind("key", MemoryKind::pinned_host, 0, 1).ok());
  const core::Status host = check_memory_kind("key", MemoryKind::host, 0, 1);
  EXPECT_EQ(host.code, TESSERA_INVALID_ARGUMENT);
  EXPECT_TRUE(has(host.message, "key is host memory, but device.kind is 2 (cuda)")) << host.message;
  const core::Status other = check_memory_kind("mask.tensor", MemoryKind::gpu, 2, 0);
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
  Step step;
  step.kernel = "tensor_pv";
  step.grid[0] = 16, step.grid[1] = 8;
  step.threads = 128;
  step.shared_bytes = 66560;
  const core::Status s = launch_failed(step, {1, "cudaErrorInvalidValue", "invalid argument"});
  EXPECT_EQ(s.code, TESSERA_INTERNAL);
  for (const char* part : {"tensor_pv", "16 x 8 x 1", "128 threads", "66560 bytes", "cudaErrorInvalidValue"})
    EXPECT_TRUE(has(s.message, part)) << s.message;
  EXPECT_TRUE(
      has(launch_failed(step, {400, "cudaErrorInvalidResourceHandle", "bad"}).message, "device.stream"));
}

TEST(HostCheck, HostMemoryIsFineWithOrWithoutADriver) {
  float memory[4] = {};
  core::Addresses at;
  at[core::TensorId::query] = at[core::TensorId::output] = memory;
  const tessera_device device = TESSERA_DEVICE_INIT;
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(cpu::check_on_host(at, device).ok());
}

}  // namespace
}  // namespace tessera::cuda::runtime
