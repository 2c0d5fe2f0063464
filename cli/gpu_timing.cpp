// See gpu_timing.hpp.
#include "cli/gpu_timing.hpp"

#include <algorithm>
#include <chrono>

#include "cases/gpu/memory.hpp"
#include "cli/common.hpp"

namespace tessera::cli {
namespace {

using gpu::BareLaunch;
using gpu::Graph;
using gpu::L2Flush;
using gpu::Stopwatch;
using gpu::Stream;
using Clock = std::chrono::steady_clock;

constexpr int kMostCallsPerGraph = 20;
constexpr double kGraphUs = 5e4;  // slow calls need no company to hide their launch
constexpr std::size_t kFewestSamples = 10;
constexpr std::size_t kMostSamples = 5000;
constexpr std::size_t kMostSingles = 200;
constexpr double kLongCallUs = 1e3;  // beyond, what the host does hardly matters: a few samples
constexpr std::size_t kQueued = 32;  // replays put on the stream before the first one is waited for

void must(const core::Status& status) {
  if (!status.ok()) throw Stop(kExitFailed, "a kernel failed while being timed: " + status.message);
}

struct Contender {
  const GpuCall* call = nullptr;
  double once_us = 0;  // roughly
  int calls = 1;       // per graph
  Graph graph;
  std::vector<double> samples_us;
  double spent_us = 0;

  [[nodiscard]] bool done(double min_time_us) const {
    return samples_us.size() >= kMostSamples ||
           (samples_us.size() >= kFewestSamples && spent_us >= min_time_us);
  }
};

class Bench {
 public:
  explicit Bench(const cuda::runtime::Gpu& gpu) {
    must(Stream::create(gpu.index, &stream_));
    must(L2Flush::create(gpu.index, static_cast<std::size_t>(gpu.l2_bytes), &flush_));
    must(BareLaunch::create(gpu.index, &bare_));
    for (Stopwatch& watch : watches_) must(Stopwatch::create(gpu.index, &watch));
  }

  Contender prepare(const GpuCall& call) {
    Contender c;
    c.call = &call;
    c.once_us = 1e300;
    for (int n = 0; n < 4; ++n) {  // the first one loads the code
      must(watches_[0].start(stream_));
      must(call(stream_.get()));
      must(watches_[0].stop(stream_));
      double us = 0;
      must(watches_[0].elapsed_us(&us));
      if (n > 0) c.once_us = std::min(c.once_us, us);
    }
    c.calls = static_cast<int>(
        std::clamp(kGraphUs / std::max(c.once_us, 1e-3), 1.0, static_cast<double>(kMostCallsPerGraph)));
    must(Graph::capture(
        stream_,
        [&] {
          core::Status status;
          for (int n = 0; n < c.calls && status.ok(); ++n) status = call(stream_.get());
          return status;
        },
        &c.graph));
    return c;
  }

  // Rounds over everyone who still needs samples; several rounds are queued, so that the GPU never waits
  // for the host and a replay's start is not part of its time.
  void replay(std::vector<Contender>& contenders, double min_time_us) {
    for (const Contender& c : contenders) must(c.graph.replay(stream_));
    while (true) {
      std::vector<Contender*> open;
      for (Contender& c : contenders)
        if (!c.done(min_time_us)) open.push_back(&c);
      if (open.empty()) return;
      queue_rounds(open, min_time_us);
    }
  }

  Stats single(const GpuCall& call, double min_time_us) {
    std::vector<double> samples;
    double spent = 0;
    must(stream_.synchronize());
    while (samples.size() < kFewestSamples || (samples.size() < kMostSingles && spent < min_time_us)) {
      const auto begin = Clock::now();
      must(call(stream_.get()));
      must(stream_.synchronize());
      samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      spent += samples.back();
    }
    return statistics(std::move(samples));
  }

  Stats cold(const GpuCall& call, double min_time_us) {
    std::vector<double> samples;
    double spent = 0;
    while (samples.size() < kFewestSamples || (samples.size() < kMostSingles && spent < min_time_us)) {
      must(flush_.flush(stream_));  // long enough that the call is queued before it can start
      must(watches_[0].start(stream_));
      must(call(stream_.get()));
      must(watches_[0].stop(stream_));
      double us = 0;
      must(watches_[0].elapsed_us(&us));
      samples.push_back(us);
      spent += us;
    }
    return statistics(std::move(samples));
  }

  // Of a call and of a bare launch in turns, with nothing to wait for: the stream is empty at every start.
  void host(const GpuCall& call, double once_us, GpuTimes& times) {
    const std::size_t count = once_us < kLongCallUs ? kMostSingles : kFewestSamples;
    std::vector<double> calls, bare;
    const auto time = [&](std::vector<double>& samples, const auto& launch) {
      const auto begin = Clock::now();
      must(launch());
      samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      must(stream_.synchronize());
    };
    for (std::size_t n = 0; n < count; ++n) {
      time(calls, [&] { return call(stream_.get()); });
      time(bare, [&] { return bare_.launch(stream_); });
    }
    times.host = statistics(std::move(calls));
    times.bare = statistics(std::move(bare));
  }

 private:
  void queue_rounds(const std::vector<Contender*>& open, double min_time_us) {
    double round_us = 0;
    for (const Contender* c : open) round_us += c->once_us * c->calls;
    const auto fit = static_cast<std::size_t>(std::max(1.0, min_time_us / round_us));
    const std::size_t rounds = std::clamp<std::size_t>(kQueued / open.size(), 1, fit);
    std::vector<Contender*> order;
    for (std::size_t r = 0; r < rounds; ++r) order.insert(order.end(), open.begin(), open.end());
    order.resize(std::min(order.size(), kQueued));
    for (std::size_t n = 0; n < order.size(); ++n) {
      must(watches_[n].start(stream_));
      must(order[n]->graph.replay(stream_));
      must(watches_[n].stop(stream_));
    }
    for (std::size_t n = 0; n < order.size(); ++n) {
      double us = 0;
      must(watches_[n].elapsed_us(&us));
      order[n]->samples_us.push_back(us / order[n]->calls);
      order[n]->spent_us += us;
    }
  }

  Stream stream_;
  L2Flush flush_;
  BareLaunch bare_;
  Stopwatch watches_[kQueued];
};

}  // namespace

std::vector<GpuTimes> time_on_gpu(const cuda::runtime::Gpu& gpu, const std::vector<GpuCall>& contenders,
                                  double min_time_s) {
  Bench bench(gpu);
  std::vector<Contender> each;
  each.reserve(contenders.size());
  for (const GpuCall& call : contenders) each.push_back(bench.prepare(call));
  bench.replay(each, min_time_s * 1e6);
  std::vector<GpuTimes> times;
  times.reserve(each.size());
  for (Contender& c : each) {
    GpuTimes t;
    t.graph = statistics(std::move(c.samples_us));
    t.calls_per_graph = c.calls;
    t.single = bench.single(*c.call, min_time_s * 1e6 / 2);
    t.cold = bench.cold(*c.call, min_time_s * 1e6 / 2);
    bench.host(*c.call, c.once_us, t);
    times.push_back(t);
  }
  return times;
}

}  // namespace tessera::cli
