// Streams, events, graphs: what has run at which time, and what has not.
#include "emulator/tests/runtime_fixture.hpp"

namespace emulator::testing {
namespace {

cudaStream_t stream_with(unsigned flags) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  return stream;
}

class Streams : public Runtime {};

TEST_F(Streams, WorkRunsWhenSomebodyWaitsAndNotBefore) {
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  int* const a = number(1);
  ASSERT_EQ(launch("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(launch("add", a, 100, stream), cudaSuccess);
  EXPECT_EQ(peek(a), 1);
  int seen = 0;  // a copy in the default stream does not wait for a stream that does not block
  ASSERT_EQ(cudaMemcpy(&seen, a, sizeof seen, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(seen, 1);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(peek(a), 111);
}

TEST_F(Streams, CopiesTakeTheirTurn) {
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  int *const a = number(1), *const b = number(2);
  int value = 5, seen = 0;
  ASSERT_EQ(launch("add", b, 10, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(a, b, 4, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(b, &value, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  value = 6;  // was read already
  ASSERT_EQ(launch("add", b, 100, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&seen, b, 4, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(peek(a) + peek(b) + seen, 3);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(peek(a), 12);
  EXPECT_EQ(peek(b), 105);
  EXPECT_EQ(seen, 105);
  EXPECT_EQ(cudaMemcpyAsync(a, b, 5, cudaMemcpyDeviceToDevice, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(a, b, 4, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
  // In a graph those within the GPU are work as any other.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(&seen, b, 4, cudaMemcpyDeviceToHost, stream), cudaErrorNotSupported);
  EXPECT_EQ(cudaMemcpyAsync(a, b, 4, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(peek(a), 105);
}

TEST_F(Streams, EachHasAnIdThatNoOtherGets) {
  unsigned long long first = 0, second = 0, legacy = 0, null = 0;
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  ASSERT_EQ(cudaStreamGetId(stream, &first), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ASSERT_EQ(cudaStreamGetId(stream_with(cudaStreamNonBlocking), &second), cudaSuccess);
  ASSERT_EQ(cudaStreamGetId(cudaStreamLegacy, &legacy), cudaSuccess);
  ASSERT_EQ(cudaStreamGetId(nullptr, &null), cudaSuccess);
  EXPECT_NE(first, second);
  EXPECT_NE(first, legacy);
  EXPECT_EQ(legacy, null);
}

// Programmatic dependent launch.
TEST_F(Streams, ALaunchStartsBeforeTheOneThatLetsIt) {
  define("other", [](const Launch&) { return std::vector<Report>{}; });
  entries()["add"].info.lets_dependents_start = true;
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  int* const a = number(1);
  ASSERT_EQ(launch("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(launch_early("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(launch_early("other", a, 10, stream), cudaSuccess);  // lets nobody
  ASSERT_EQ(launch_early("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(launch("add", a, 10, stream), cudaSuccess);  // without the attribute
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(asked().ran, (std::vector<std::string>{"start of add", "start of other", "add", "add", "other",
                                                   "add", "add"}));
  EXPECT_EQ(peek(a), 41);
}

TEST_F(Streams, OnlyALaunchIsOvertaken) {
  entries()["add"].info.lets_dependents_start = true;
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  int* const a = number(1);
  ASSERT_EQ(launch("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(a, 0, 4, stream), cudaSuccess);
  ASSERT_EQ(launch_early("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(asked().ran, (std::vector<std::string>{"add", "add"}));
}

TEST_F(Streams, TheDefaultStreamWaitsForThoseThatBlock) {
  const cudaStream_t stream = stream_with(cudaStreamDefault);
  int* const a = number(1);
  ASSERT_EQ(launch("add", a, 10, stream), cudaSuccess);
  EXPECT_EQ(peek(a), 1);
  int seen = 0;
  ASSERT_EQ(cudaMemcpy(&seen, a, sizeof seen, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(seen, 11);
  // And they for it.
  ASSERT_EQ(launch("add", a, 100), cudaSuccess);
  EXPECT_EQ(peek(a), 11);
  ASSERT_EQ(launch("add", a, 1000, stream), cudaSuccess);
  EXPECT_EQ(peek(a), 111);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(peek(a), 1111);
}

TEST_F(Streams, AnEventIsReachedWhenWhatWasBeforeItHasRun) {
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking), other = stream_with(cudaStreamNonBlocking);
  cudaEvent_t begin = nullptr, end = nullptr;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&end), cudaSuccess);
  int* const a = number(1);
  float milliseconds = -1;
  ASSERT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  ASSERT_EQ(launch("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(launch("add", a, 100, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(peek(a), 11);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  // Another stream waits for it, too.
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, end, 0), cudaSuccess);
  ASSERT_EQ(launch("add", a, 1000, other), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(peek(a), 1111);
}

// Which of two streams comes first is open: some seed has it one way, another the other.
TEST_F(Streams, TheSeedDecidesWhichStreamComesFirst) {
  bool first[2] = {};
  define("other", [](const Launch& l) {
    *params(l).to *= 2;
    return std::vector<Report>{};
  });
  for (int seed = 1; seed < 20; ++seed) {
    setenv("TESSERA_EMU_SEED", std::to_string(seed).c_str(), 1);
    (void)cudaDeviceReset();
    const cudaStream_t a = stream_with(cudaStreamNonBlocking), b = stream_with(cudaStreamNonBlocking);
    int* const at = number(1);
    ASSERT_EQ(launch("add", at, 10, a), cudaSuccess);
    ASSERT_EQ(launch("other", at, 0, b), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    first[peek(at) == 22 ? 0 : 1] = true;
  }
  EXPECT_TRUE(first[0] && first[1]);
}

TEST_F(Streams, AHandleThatIsNoStreamIsRefused) {
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch("add", number(1), 1, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
}

class Graphs : public Runtime {};

TEST_F(Graphs, WhatIsCapturedRunsAtEachReplayAndNotBefore) {
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  int* const a = number(1);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ASSERT_EQ(launch("add", a, 10, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(peek(a), 1);
  for (int n = 0; n < 3; ++n) ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
  EXPECT_EQ(peek(a), 1);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(peek(a), 31);
  ASSERT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(ready, stream), cudaErrorInvalidValue);
}

TEST_F(Graphs, MemoryThatACaptureAllocatesIsThereAtEveryReplay) {
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  void* memory = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&memory, sizeof(int), stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory, 0, sizeof(int), stream), cudaSuccess);
  ASSERT_EQ(launch("add", static_cast<int*>(memory), 5, stream), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  for (int n = 0; n < 2; ++n) {
    ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(peek(static_cast<int*>(memory)), 5);
  }
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
  ASSERT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);  // what is under way keeps what it needs
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(before, after);
}

TEST_F(Graphs, WhatACaptureForbidsEndsIt) {
  const cudaStream_t stream = stream_with(cudaStreamNonBlocking);
  void* memory = nullptr;
  int device = 0;
  cudaGraph_t graph = nullptr;
  const std::function<cudaError_t()> forbidden[] = {
      [&] { return cudaMalloc(&memory, 4); }, [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaStreamSynchronize(stream); }, [&] { return cudaStreamGetDevice(stream, &device); }};
  for (const auto& call : forbidden) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(call(), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
}

}  // namespace
}  // namespace emulator::testing
