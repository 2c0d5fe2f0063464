#include "emulator/runtime/streams.hpp"

#include <driver_types.h>

#include <algorithm>
#include <utility>

namespace emulator::runtime {
namespace {

// As many launches as a real stream takes before the host has to wait.
constexpr std::size_t kMostWaiting = 1024;

}  // namespace

cudaStream_t Streams::create(bool blocking) {
  auto owned = std::make_unique<Stream>(++ids_);
  owned->blocking = blocking;
  auto* const handle = owned.get();
  streams_[handle] = std::move(owned);
  return reinterpret_cast<cudaStream_t>(handle);
}

Stream* Streams::find(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return &default_;
  if (handle == cudaStreamPerThread) {
    auto& mine = per_thread_[std::this_thread::get_id()];
    if (mine == nullptr) mine = std::make_unique<Stream>(++ids_);
    return mine.get();
  }
  const auto found = streams_.find(reinterpret_cast<Stream*>(handle));
  return found == streams_.end() ? nullptr : found->second.get();
}

// CUDA lets the work of a destroyed stream end; here it ends now.
cudaError_t Streams::destroy(cudaStream_t handle) {
  const auto found = streams_.find(reinterpret_cast<Stream*>(handle));
  if (found == streams_.end()) return cudaErrorInvalidResourceHandle;
  finish(found->second.get());
  streams_.erase(found);
  return cudaSuccess;
}

cudaEvent_t Streams::create_event(bool timing) {
  auto owned = std::make_unique<Event>();
  owned->timing = timing;
  auto* const handle = owned.get();
  events_[handle] = std::move(owned);
  return reinterpret_cast<cudaEvent_t>(handle);
}

Event* Streams::find(cudaEvent_t handle) {
  const auto found = events_.find(reinterpret_cast<Event*>(handle));
  return found == events_.end() ? nullptr : found->second.get();
}

cudaError_t Streams::destroy(cudaEvent_t handle) {
  return events_.erase(reinterpret_cast<Event*>(handle)) == 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

Graph* Streams::find_graph(void* handle) {
  const auto found = graphs_.find(handle);
  return found == graphs_.end() ? nullptr : found->second.get();
}

cudaError_t Streams::destroy_graph(void* handle) {
  return graphs_.erase(handle) == 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

void Streams::add(Stream* stream, Operation operation) {
  if (stream->capture != nullptr) {
    stream->capture->work.push_back(std::move(operation));
    return;
  }
  if (stream == &default_) {
    finish_blocking();
  } else if (stream->blocking) {
    finish(&default_);
  }
  stream->queue.push_back(std::move(operation));
  if (stream->queue.size() > kMostWaiting) run_front(stream);
}

void Streams::record(Stream* stream, Event* event) {
  auto mark = std::make_shared<Mark>();
  mark->stream = stream;
  event->mark = mark;
  Operation reach;
  reach.run = [mark] {
    mark->reached = true;
    mark->at = std::chrono::steady_clock::now();
  };
  add(stream, std::move(reach));
}

void Streams::run_front(Stream* stream) {
  const Operation front = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (front.after != nullptr) finish(front.after);
  start_dependents(stream, front.lets_next_start);
  if (front.started != nullptr) {
    front.run_started(*front.started);
  } else {
    front.run();
  }
}

// As early as a GPU with room for them could: before the launch that they follow has done anything.
void Streams::start_dependents(Stream* stream, bool let) {
  constexpr std::size_t kMostAtOnce = 3;
  for (std::size_t n = 0; n < std::min(kMostAtOnce, stream->queue.size()); ++n) {
    Operation& next = stream->queue[n];
    if (!let || next.start == nullptr || next.after != nullptr) return;
    if (next.started == nullptr) next.started = next.start();
    let = next.started != nullptr && next.lets_next_start;
  }
}

void Streams::finish(Stream* stream) {
  while (!stream->queue.empty()) run_front(stream);
}

void Streams::finish(const std::shared_ptr<Mark>& mark) {
  while (!mark->reached && !mark->stream->queue.empty()) run_front(mark->stream);
}

void Streams::finish_blocking() {
  for (auto& [handle, stream] : streams_)
    if (stream->blocking) finish(stream.get());
  for (auto& [thread, stream] : per_thread_) finish(stream.get());
}

void Streams::finish_for_default() {
  finish_blocking();
  finish(&default_);
}

void Streams::finish_all() {
  for (;;) {
    std::vector<Stream*> waiting;
    if (!default_.queue.empty()) waiting.push_back(&default_);
    for (auto& [handle, stream] : streams_)
      if (!stream->queue.empty()) waiting.push_back(stream.get());
    for (auto& [thread, stream] : per_thread_)
      if (!stream->queue.empty()) waiting.push_back(stream.get());
    if (waiting.empty()) return;
    run_front(waiting[random_() % waiting.size()]);
  }
}

cudaError_t Streams::begin_capture(Stream* stream, cudaStreamCaptureMode mode) {
  if (stream == &default_) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = std::make_unique<Capture>();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  return cudaSuccess;
}

cudaError_t Streams::end_capture(Stream* stream, std::unique_ptr<Capture>* out) {
  if (stream->capture == nullptr) return cudaErrorIllegalState;
  if (stream->capture->mode != cudaStreamCaptureModeRelaxed &&
      stream->capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  *out = std::move(stream->capture);
  return (*out)->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

bool Streams::break_captures() {
  bool any = false;
  const auto look = [&](Stream* stream) {
    Capture* const capture = stream->capture.get();
    if (capture == nullptr || capture->mode == cudaStreamCaptureModeRelaxed) return;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id())
      return;
    any = capture->broken = true;
  };
  for (auto& [handle, stream] : streams_) look(stream.get());
  for (auto& [thread, stream] : per_thread_) look(stream.get());
  return any;
}

}  // namespace emulator::runtime
