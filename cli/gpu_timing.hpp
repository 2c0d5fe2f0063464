// Timing on a GPU: what a kernel takes, what a caller feels, and what it takes when nothing is in the cache.
#pragma once

#include <functional>
#include <vector>

#include "cli/timing.hpp"
#include "core/status.hpp"
#include "cuda/runtime/runtime.hpp"

namespace tessera::cli {

struct GpuTimes {
  Stats graph;   // per call, over replays of a CUDA graph of several calls: the kernel alone
  Stats single;  // from call to result, host time: launch and waiting included
  Stats cold;    // one call after the L2 cache was overwritten
  Stats host;    // the call alone, host time: until the kernel is on the stream
  Stats bare;    // the same of a kernel that does nothing
  int calls_per_graph = 0;
};

// Puts one call on a stream.
using GpuCall = std::function<core::Status(void* stream)>;

// Contenders take turns, replay by replay, so that a change of clocks hits all of them alike; one that has
// `min_time_s` of GPU time (and some samples at least) waits for the slower ones. Stops if a call fails.
std::vector<GpuTimes> time_on_gpu(const cuda::runtime::Gpu& gpu, const std::vector<GpuCall>& contenders,
                                  double min_time_s);

}  // namespace tessera::cli
