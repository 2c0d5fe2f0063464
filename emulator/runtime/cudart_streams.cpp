// cudart: streams, events and graphs.
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "emulator/runtime/machine.hpp"

using emulator::runtime::Capture;
using emulator::runtime::Event;
using emulator::runtime::Graph;
using emulator::runtime::Machine;
using emulator::runtime::not_emulated;
using emulator::runtime::on_machine;
using emulator::runtime::Operation;
using emulator::runtime::outside_captures;
using emulator::runtime::Stream;

namespace {

// The stream behind a handle, or cudaErrorInvalidResourceHandle.
template <class Call>
cudaError_t on_stream(cudaStream_t handle, Call call) {
  return on_machine([&](Machine& m) {
    Stream* const stream = m.streams.find(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : call(m, stream);
  });
}

template <class Call>
cudaError_t on_event(cudaEvent_t handle, Call call) {
  return on_machine([&](Machine& m) {
    Event* const event = m.streams.find(handle);
    return event == nullptr ? cudaErrorInvalidResourceHandle : call(m, event);
  });
}

// What must not be asked of a stream that is being captured: it ends the capture.
bool breaks_capture(Stream* stream) {
  if (stream->capture == nullptr) return false;
  stream->capture->broken = true;
  return true;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return on_machine([&](Machine& m) {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *out = m.streams.create(flags == cudaStreamDefault);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithFlags(out, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return on_machine([&](Machine& m) { return m.streams.destroy(handle); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return on_stream(handle, [&](Machine& m, Stream* stream) {
    if (breaks_capture(stream)) return cudaErrorStreamCaptureUnsupported;
    if (stream == m.streams.find(cudaStream_t{})) {
      m.streams.finish_for_default();
    } else {
      m.streams.finish(stream);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return on_stream(handle, [&](Machine&, Stream* stream) {
    if (breaks_capture(stream)) return cudaErrorStreamCaptureUnsupported;
    *device = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return on_stream(handle, [&](Machine&, Stream* stream) {
    *id = stream->id;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return on_stream(handle, [&](Machine& m, Stream* stream) {
    Event* const event = m.streams.find(event_handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->mark == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
    if (stream->capture != nullptr)
      return not_emulated("cudaStreamWaitEvent on a stream that is being captured");
    Operation operation;
    operation.run = [] {};
    operation.after = event->mark;
    m.streams.add(stream, std::move(operation));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return on_machine([&](Machine& m) {
    *out = m.streams.create_event((flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return on_machine([&](Machine& m) { return m.streams.destroy(handle); });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return on_event(handle, [&](Machine& m, Event* event) {
    Stream* const stream = m.streams.find(stream_handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return not_emulated("cudaEventRecord on a stream that is being captured");
    m.streams.record(stream, event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return on_event(handle, [&](Machine& m, Event* event) {
    if (event->mark != nullptr) m.streams.finish(event->mark);
    return cudaSuccess;
  });
}

// How long the emulator took: a number that says nothing of a GPU, but one that is never negative.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return on_event(begin, [&](Machine& m, Event* from) {
    Event* const to = m.streams.find(end);
    if (to == nullptr || to->mark == nullptr || from->mark == nullptr || !to->timing || !from->timing)
      return cudaErrorInvalidResourceHandle;
    if (!to->mark->reached || !from->mark->reached) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(to->mark->at - from->mark->at).count();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return on_stream(handle, [&](Machine& m, Stream* stream) { return m.streams.begin_capture(stream, mode); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* out) {
  return on_stream(handle, [&](Machine&, Stream* stream) {
    *out = stream->capture == nullptr ? cudaStreamCaptureStatusNone
           : stream->capture->broken  ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  *out = nullptr;
  return on_stream(handle, [&](Machine& m, Stream* stream) {
    std::unique_ptr<Capture> capture;
    if (const cudaError_t error = m.streams.end_capture(stream, &capture); error != cudaSuccess) return error;
    for (Operation& operation : capture->work) operation.keeps = capture->memory;
    *out = m.streams.keep<cudaGraph_t>(Graph{std::move(capture->work)});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t handle, unsigned long long flags) {
  return on_machine([&](Machine& m) {
    const Graph* const graph = m.streams.find_graph(handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    if (flags != 0) return not_emulated("a flag of cudaGraphInstantiate");
    *out = m.streams.keep<cudaGraphExec_t>(*graph);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return on_stream(stream_handle, [&](Machine& m, Stream* stream) {
    const Graph* const graph = m.streams.find_graph(handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    for (const Operation& operation : graph->work) m.streams.add(stream, operation);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return on_machine([&](Machine& m) { return m.streams.destroy_graph(handle); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return on_machine([&](Machine& m) { return m.streams.destroy_graph(handle); });
}
