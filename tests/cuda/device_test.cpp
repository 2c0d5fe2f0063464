// The device behind the API: what it refuses and how, that refusals leave it usable, graph capture, streams
// and threads. Needs a GPU, except where it says what happens without one.
#include <fmt/format.h>

#include <cstring>
#include <thread>

#include "on_device.hpp"

namespace tessera::testing_cuda {
namespace {

constexpr const char* kWords =
    "b2 h4/2 q40 k70 d64 f16 causal=bottom-right mask=additive lengths alibi sinks";
constexpr const char* kPlain = "b2 h4/2 q40 k70 d64 f16";

// Nothing broke: the same process still computes, and rightly.
void expect_usable() {
  cases::Verdict verdict = cases::judge(case_of(kPlain), cases::Input::normal, 1, gpu_device());
  EXPECT_TRUE(verdict.passed) << verdict.why;
}

TEST(Device, WithoutAGpuTheSentenceSaysWhichPartIsMissing) {
  const std::string why = no_gpu();
  if (why.empty()) GTEST_SKIP() << "there is a GPU";
  cases::Instance instance(case_of(kPlain), cases::Input::normal, 1);
  const tessera_device device = gpu_device();
  EXPECT_EQ(tessera_attend(&instance.problem(), &device), TESSERA_DEVICE_UNAVAILABLE);
  EXPECT_EQ(std::string(tessera_last_error()), "device.kind is 2 (cuda), but " + why);
}

TEST(Device, HostPointersAreRefusedByTheTensorsName) {
  SKIP_WITHOUT_GPU();
  OnGpu there(kWords);
  const tessera_attention& host = there.instance.problem();
  struct {
    const char* name;
    tessera_tensor tessera_attention::*tensor;
  } const tensors[] = {{"query", &tessera_attention::query},
                       {"key", &tessera_attention::key},
                       {"value", &tessera_attention::value},
                       {"output", &tessera_attention::output},
                       {"lse", &tessera_attention::lse},
                       {"key_lengths", &tessera_attention::key_lengths},
                       {"alibi_slopes", &tessera_attention::alibi_slopes},
                       {"sinks", &tessera_attention::sinks}};
  const tessera_device device = gpu_device();
  for (const auto& each : tensors) {
    tessera_attention mixed = there.problem;
    (mixed.*each.tensor).data = (host.*each.tensor).data;
    EXPECT_EQ(tessera_attend(&mixed, &device), TESSERA_INVALID_ARGUMENT) << each.name;
    EXPECT_NE(std::string(tessera_last_error()).find(fmt::format("{} is host memory", each.name)),
              std::string::npos)
        << tessera_last_error();
  }
  tessera_attention mixed = there.problem;
  mixed.mask.tensor.data = host.mask.tensor.data;
  EXPECT_EQ(tessera_attend(&mixed, &device), TESSERA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tessera_last_error()).find("mask.tensor is host memory"), std::string::npos);
  expect_usable();
}

TEST(Device, GpuPointersAreRefusedByTheCpu) {
  SKIP_WITHOUT_GPU();
  OnGpu there(kPlain);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  EXPECT_EQ(tessera_attend(&there.problem, &cpu), TESSERA_INVALID_ARGUMENT);
  EXPECT_STREQ(tessera_last_error(), "query is GPU memory, but device.kind is 1 (cpu)");
  tessera_attention mixed = there.instance.problem();
  mixed.output.data = there.problem.output.data;
  EXPECT_EQ(tessera_attend(&mixed, &cpu), TESSERA_INVALID_ARGUMENT);
  EXPECT_STREQ(tessera_last_error(), "output is GPU memory, but device.kind is 1 (cpu)");
}

TEST(Device, MemoryAndStreamsOfAnotherGpuAreRefused) {
  SKIP_WITHOUT_GPU();
  if (cuda::runtime::find_gpu(1, nullptr) == nullptr) GTEST_SKIP() << "this machine has one GPU";
  OnGpu there(kPlain);
  tessera_device device = gpu_device();
  device.index = 1;
  EXPECT_EQ(tessera_attend(&there.problem, &device), TESSERA_INVALID_ARGUMENT);
  EXPECT_STREQ(tessera_last_error(), "query is memory of GPU 0, but device.index is 1");
  gpu::Stream stream;
  ASSERT_TRUE(gpu::Stream::create(1, &stream).ok());
  device.index = 0;
  device.stream = stream.get();
  EXPECT_EQ(tessera_attend(&there.problem, &device), TESSERA_INVALID_ARGUMENT);
  EXPECT_STREQ(tessera_last_error(), "device.stream is a stream of GPU 1, but device.index is 0");
}

TEST(Device, AnIndexBeyondTheLastGpuIsRefused) {
  SKIP_WITHOUT_GPU();
  cases::Instance instance(case_of(kPlain), cases::Input::normal, 1);
  tessera_device device = gpu_device();
  device.index = 999;
  EXPECT_EQ(tessera_attend(&instance.problem(), &device), TESSERA_DEVICE_UNAVAILABLE);
  EXPECT_NE(std::string(tessera_last_error()).find("there is no GPU 999"), std::string::npos);
}

TEST(Device, OutOfMemoryIsAStatusAndLeavesTheGpuUsable) {
  SKIP_WITHOUT_GPU();
  gpu::Memory memory;
  const core::Status status = gpu::Memory::allocate(0, std::size_t{1} << 50, &memory);
  EXPECT_EQ(status.code, TESSERA_OUT_OF_MEMORY);
  EXPECT_NE(status.message.find("no room for 1125899906842624 bytes"), std::string::npos) << status.message;
  expect_usable();
}

TEST(Device, AFailedLaunchIsReportedAndLeavesTheGpuUsable) {
  SKIP_WITHOUT_GPU();
  static const int no_kernel = 0;
  cuda::runtime::Step step;
  step.kernel = "no_such_kernel";
  step.function = &no_kernel;
  step.grid[0] = 7;
  step.threads = 32;
  step.place = [](void*, const core::Addresses&, void*) { return core::Status{}; };
  const core::Status status = cuda::runtime::current().launch(step, {}, nullptr, gpu_device());
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message.find("no_such_kernel"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("7 x 1 x 1, 32 threads"), std::string::npos) << status.message;
  expect_usable();
}

// A repeated call is not looked at again; it must do all the same what the first one did.
TEST(Device, ARepeatedCallIsComputedAgain) {
  SKIP_WITHOUT_GPU();
  OnGpu there(kPlain);
  const tessera_device device = gpu_device();
  std::vector<unsigned char> first;
  for (int call = 0; call < 3; ++call) {
    there.instance.poison_outputs();
    ASSERT_TRUE(there.mirror->send_outputs().ok());
    ASSERT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
    ASSERT_TRUE(there.mirror->fetch_outputs().ok());
    if (call == 0) first = there.instance.output_bytes();
    EXPECT_EQ(there.instance.output_bytes(), first) << call;
  }
  tessera_attention host = there.instance.problem();  // never one of the calls before
  for (int call = 0; call < 2; ++call) EXPECT_EQ(tessera_attend(&host, &device), TESSERA_INVALID_ARGUMENT);
}

TEST(Device, ACallCanBeCapturedAndReplayed) {
  SKIP_WITHOUT_GPU();
  OnGpu there(kPlain);
  there.instance.poison_outputs();
  const core::Status direct = there.mirror->attend(there.instance.problem(), gpu_device());
  ASSERT_TRUE(direct.ok()) << direct.message;
  const std::vector<unsigned char> wanted = there.instance.output_bytes();

  const Captured step([&](const tessera_device& d) { return status_of(tessera_attend(&there.problem, &d)); });
  ASSERT_TRUE(step.status.ok()) << step.status.message;
  there.instance.poison_outputs();
  ASSERT_TRUE(there.mirror->send_outputs().ok());
  ASSERT_TRUE(step.replay().ok());
  ASSERT_TRUE(there.mirror->fetch_outputs().ok());
  EXPECT_EQ(there.instance.output_bytes(), wanted);
}

TEST(Device, RefusedCallsDuringACaptureLeaveItValid) {
  SKIP_WITHOUT_GPU();
  OnGpu there(kPlain);
  const Captured step([&](const tessera_device& d) {
    EXPECT_EQ(tessera_attend(&there.instance.problem(), &d), TESSERA_INVALID_ARGUMENT);
    return status_of(tessera_attend(&there.problem, &d));
  });
  ASSERT_TRUE(step.status.ok()) << step.status.message;
  EXPECT_TRUE(step.replay().ok());
}

// Calls of a stream in a row, each with the last one's output for its query, and writing where that one read.
// `pause` after every call: then nothing can start before the last one has ended.
std::vector<unsigned char> chained(const OnGpu& there, const char* kernel, int calls, bool pause,
                                   std::string* complaint) {
  // Of the query, and as many of the output: contiguous, dim and value dim the same.
  const tessera_tensor& query = there.instance.problem().query;
  std::size_t bytes = 2;  // of an element
  for (int d = 0; d < query.rank; ++d) bytes *= static_cast<std::size_t>(query.shape[d]);
  std::vector<unsigned char> result(bytes);
  gpu::Stream stream;
  gpu::Memory buffers[2];
  const auto check = [&](const core::Status& status) {
    if (!status.ok()) *complaint = status.message;
    return status.ok();
  };
  for (gpu::Memory& buffer : buffers)
    if (!check(gpu::Memory::allocate(0, bytes, &buffer))) return {};
  if (!check(buffers[0].upload(query.data, bytes))) return {};
  if (!check(gpu::Stream::create(0, &stream))) return {};
  tessera_device device = gpu_device();
  device.stream = stream.get();
  device.kernel = kernel;
  tessera_attention call = there.problem;
  for (int n = 0; n < calls; ++n) {
    call.query.data = buffers[n % 2].data();
    call.output.data = buffers[(n + 1) % 2].data();
    if (tessera_attend(&call, &device) != TESSERA_OK) {
      *complaint = tessera_last_error();
      return {};
    }
    if (pause && !check(stream.synchronize())) return {};
  }
  if (!check(stream.synchronize())) return {};
  if (!check(buffers[calls % 2].download(result.data(), bytes))) return {};
  return result;
}

TEST(Device, CallsInARowSeeEachOthersResults) {
  SKIP_WITHOUT_GPU();
  constexpr int kCalls = 25;
  // A large scale: a row of output is nearly one row of V, so that a stale query shows.
  for (const char* words : {"b2 h8 q256 d64 f16 scale=2", "b2 h8 q512 d64 f16 scale=2 causal=top-left",
                            "b8 h8 q512 d64 f16 scale=2", "b4 h16 q576 d64 bf16 scale=2 lengths",
                            "b2 h16 q1024 d128 f16 scale=2", "b1 h16 q512 d128 bf16 scale=2",
                            "b1 h8 q512 d128 f16 scale=2", "b2 h16 q512 d128 f16 scale=2 softcap=30",
                            "b2 h8 q512 d256 f16 scale=2", "b2 h8 q40 d64 f16 scale=2"}) {
    const OnGpu there(words);
    for (const char* const kernel : {static_cast<const char*>(nullptr), "sm80"}) {  // null: the plan's choice
      std::string complaint;
      const std::vector<unsigned char> wanted = chained(there, kernel, kCalls, true, &complaint);
      for (int round = 0; round < 10 && complaint.empty(); ++round) {
        const std::vector<unsigned char> got = chained(there, kernel, kCalls, false, &complaint);
        ASSERT_TRUE(got == wanted) << words << ", round " << round << ", "
                                   << (kernel == nullptr ? "the plan's choice" : kernel);
      }
      EXPECT_EQ(complaint, "") << words;
    }
  }
}

// The same in small, for every kernel: on the emulator each call starts before the last one has ended.
TEST(Device, SmallCallsInARowSeeEachOthersResults) {
  SKIP_WITHOUT_GPU();
  for (const char* words : {"b2 h2 q40 d64 f16 scale=2", "b2 h2 q70 d64 bf16 scale=2 lengths causal=top-left",
                            "b1 h2 q100 d64 f16 scale=2 mask=boolean:heads-queries-keys:tiles64"}) {
    const OnGpu there(words);
    for (const tessera_device& device : kernels_here()) {
      if (!supports(device, there.problem)) continue;
      std::string complaint;
      const std::vector<unsigned char> wanted = chained(there, device.kernel, 4, true, &complaint);
      EXPECT_TRUE(chained(there, device.kernel, 4, false, &complaint) == wanted)
          << words << ", " << device.kernel;
      EXPECT_EQ(complaint, "") << words << ", " << device.kernel;
    }
  }
}

// Calls on inputs of a thread's own, one after the other; the bytes of the last one's output.
std::vector<unsigned char> repeated(const char* words, std::uint64_t seed, void* stream,
                                    std::string* complaint) {
  constexpr int kCalls = 20;
  cases::Instance instance(case_of(words), cases::Input::normal, seed);
  cases::Mirror* mirror = nullptr;
  if (core::Status s = instance.mirror(0, &mirror); !s.ok()) {
    *complaint = s.message;
    return {};
  }
  tessera_device device = gpu_device();
  device.stream = stream;
  for (int n = 0; n < kCalls && complaint->empty(); ++n) {
    instance.poison_outputs();
    *complaint = mirror->attend(instance.problem(), device).message;
  }
  return instance.output_bytes();
}

// With a mask tensor a call is two launches with memory of the stream's between them.
TEST(Device, ManyThreadsGetTheBitsOfOneOnStreamsOfTheirOwnAndOnOne) {
  SKIP_WITHOUT_GPU();
  constexpr std::size_t kThreads = 8;
  gpu::Stream streams[kThreads];
  for (gpu::Stream& stream : streams) ASSERT_TRUE(gpu::Stream::create(0, &stream).ok());
  for (const char* words : {kPlain, "b2 h4/2 q300 k500 d64 f16 mask=boolean:queries-keys:tiles64"}) {
    std::vector<std::string> complaints(kThreads);
    std::vector<std::vector<unsigned char>> alone(kThreads), together(kThreads);
    for (std::size_t t = 0; t < kThreads; ++t)
      alone[t] = repeated(words, t, streams[0].get(), &complaints[t]);
    for (const bool one_stream : {false, true}) {
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < kThreads; ++t)
        threads.emplace_back(
            [&, t] { together[t] = repeated(words, t, streams[one_stream ? 0 : t].get(), &complaints[t]); });
      for (std::thread& thread : threads) thread.join();
      for (std::size_t t = 0; t < kThreads; ++t) {
        EXPECT_EQ(complaints[t], "");
        EXPECT_EQ(together[t], alone[t]) << words << ", thread " << t << (one_stream ? ", one stream" : "");
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing_cuda
