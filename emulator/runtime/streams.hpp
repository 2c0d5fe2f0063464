// Streams, events and graphs. Work waits in its stream until somebody waits for it, and runs as late as CUDA
// allows: a program that forgets to wait reads what was there before. Where the order of two streams is open,
// the seed decides.
#pragma once

#include <driver_types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "emulator/exec/launch.hpp"

namespace emulator::runtime {

struct Stream;

// A point of a stream that cudaEventRecord has marked.
struct Mark {
  Stream* stream = nullptr;
  bool reached = false;
  std::chrono::steady_clock::time_point at;
};

struct Operation {
  std::function<void()> run;
  // Programmatic dependent launch: of a launch that may begin while the one before it runs, if that one lets
  // it. What it returns is given to run_started in the place of run.
  std::function<std::shared_ptr<Started>()> start;
  std::function<void(Started&)> run_started;
  std::shared_ptr<Started> started;
  bool lets_next_start = false;
  std::shared_ptr<Mark> after;  // of another stream
  std::shared_ptr<void> keeps;  // what must live until it has run
};

// What a stream is asked to do between the begin and the end of a capture.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool broken = false;
  std::vector<Operation> work;
  std::shared_ptr<std::vector<void*>> memory;  // allocated by the graph; released with its last user
};

struct Stream {
  explicit Stream(unsigned long long number) : id(number) {}
  unsigned long long id;  // never that of another, unlike its address
  bool blocking = true;   // waits for the legacy default stream, and that one for it
  std::deque<Operation> queue;
  std::unique_ptr<Capture> capture;
};

struct Event {
  std::shared_ptr<Mark> mark;  // null: never recorded
  bool timing = true;
};

struct Graph {
  std::vector<Operation> work;
};

class Streams {
 public:
  explicit Streams(std::uint64_t seed) : random_(seed) {}

  // Handles. The null handle and cudaStreamLegacy are the legacy default stream; null comes back for what is
  // not a stream.
  cudaStream_t create(bool blocking);
  Stream* find(cudaStream_t handle);
  cudaError_t destroy(cudaStream_t handle);
  Event* find(cudaEvent_t handle);
  cudaEvent_t create_event(bool timing);
  cudaError_t destroy(cudaEvent_t handle);
  template <class Handle>
  Handle keep(Graph graph) {
    auto owned = std::make_unique<Graph>(std::move(graph));
    auto* const handle = reinterpret_cast<Handle>(owned.get());
    graphs_[owned.get()] = std::move(owned);
    return handle;
  }
  Graph* find_graph(void* handle);
  cudaError_t destroy_graph(void* handle);

  // Puts work behind what the stream has, or into its capture.
  void add(Stream* stream, Operation operation);
  void record(Stream* stream, Event* event);

  void finish(Stream* stream);
  void finish(const std::shared_ptr<Mark>& mark);
  void finish_all();
  // Before the legacy default stream does something at once: what it waits for.
  void finish_for_default();

  cudaError_t begin_capture(Stream* stream, cudaStreamCaptureMode mode);
  // cudaErrorStreamCaptureInvalidated if something forbidden happened in between.
  cudaError_t end_capture(Stream* stream, std::unique_ptr<Capture>* out);
  // A call that must not happen now breaks the captures that forbid it. False: none did.
  bool break_captures();

 private:
  void run_front(Stream* stream);
  void start_dependents(Stream* stream, bool let);
  void finish_blocking();

  std::mt19937_64 random_;
  Stream default_{1};
  unsigned long long ids_ = 1;
  std::map<Stream*, std::unique_ptr<Stream>> streams_;
  std::map<std::thread::id, std::unique_ptr<Stream>> per_thread_;
  std::map<Event*, std::unique_ptr<Event>> events_;
  std::map<void*, std::unique_ptr<Graph>> graphs_;
};

}  // namespace emulator::runtime
