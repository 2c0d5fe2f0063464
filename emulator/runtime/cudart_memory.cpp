// cudart: memory, at once and in the order of a stream.
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "emulator/runtime/machine.hpp"

using emulator::runtime::Capture;
using emulator::runtime::Machine;
using emulator::runtime::not_emulated;
using emulator::runtime::on_machine;
using emulator::runtime::Operation;
using emulator::runtime::outside_captures;
using emulator::runtime::Stream;

namespace {

// Memory of a graph: it stays where it is for as long as anything of the graph is left, so that every replay
// finds it.
std::shared_ptr<std::vector<void*>> memory_of_graph(Machine& m) {
  return {new std::vector<void*>, [&m](std::vector<void*>* all) {
            for (void* const base : *all) (void)m.memory.release(base);
            delete all;
          }};
}

cudaError_t allocate_ordered(Machine& m, void** out, std::size_t bytes, cudaStream_t handle) {
  Stream* const stream = m.streams.find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  // Freed memory comes back when the stream has got that far.
  if (bytes > m.memory.free_bytes() && stream->capture == nullptr) m.streams.finish_all();
  const cudaError_t error = m.memory.allocate(bytes, true, out);
  if (error != cudaSuccess || stream->capture == nullptr) return error;
  Capture& capture = *stream->capture;
  if (capture.memory == nullptr) capture.memory = memory_of_graph(m);
  capture.memory->push_back(*out);
  return cudaSuccess;
}

// True for memory that the capture itself allocated: the graph owns it, and its end is nothing to do.
bool graph_owns(const Capture& capture, void* base) {
  if (capture.memory == nullptr) return false;
  for (void* const mine : *capture.memory)
    if (mine == base) return true;
  return false;
}

}  // namespace

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  return outside_captures([&](Machine& m) { return m.memory.allocate(bytes, false, out); });
}

cudaError_t cudaFree(void* base) {
  return outside_captures([&](Machine& m) {
    if (base == nullptr) return cudaSuccess;
    m.streams.finish_all();
    return m.memory.release(base);
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return on_machine([&](Machine& m) {
    *free = m.memory.free_bytes();
    *total = m.memory.total_bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* at) {
  return on_machine([&](Machine& m) {
    constexpr int kNoDevice = -2;
    const bool here = m.memory.contains(at, 1);
    *out = {};
    out->type = here ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    out->device = here ? 0 : kNoDevice;
    out->devicePointer = here ? const_cast<void*>(at) : nullptr;
    out->hostPointer = here ? nullptr : const_cast<void*>(at);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return outside_captures([&](Machine& m) {
    m.streams.finish_for_default();
    return m.copy(to, from, bytes, kind);
  });
}

// Host memory is read when the call is made, as CUDA reads what is not pinned; it is written when the stream
// gets there.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return on_machine([&](Machine& m) {
    Stream* const stream = m.streams.find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    if (!m.can_copy(to, from, bytes, kind)) return cudaErrorInvalidValue;
    const bool reads_host = !m.memory.contains(from, bytes);
    if (stream->capture != nullptr && (reads_host || !m.memory.contains(to, bytes)))
      return not_emulated("cudaMemcpyAsync in a capture, to or from the host,");
    Operation operation;
    if (reads_host) {
      const auto* const first = static_cast<const char*>(from);
      const auto staged = std::make_shared<std::vector<char>>(first, first + bytes);
      operation.keeps = staged;
      from = staged->data();
    }
    operation.run = [&m, to, from, bytes] {
      if (m.failed() == cudaSuccess) (void)m.copy(to, from, bytes, cudaMemcpyDefault);
    };
    m.streams.add(stream, std::move(operation));
    return cudaSuccess;
  });
}

cudaError_t cudaMemset(void* to, int byte, std::size_t bytes) {
  return outside_captures([&](Machine& m) {
    m.streams.finish_for_default();
    if (bytes == 0) return cudaSuccess;
    if (!m.memory.contains(to, bytes)) return cudaErrorInvalidValue;
    m.memory.fill(to, byte, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t handle) {
  return on_machine([&](Machine& m) {
    Stream* const stream = m.streams.find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    if (!m.memory.contains(to, bytes)) return cudaErrorInvalidValue;
    Operation operation;
    operation.run = [&m, to, byte, bytes] {
      if (m.failed() == cudaSuccess) m.memory.fill(to, byte, bytes);
    };
    m.streams.add(stream, std::move(operation));
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t stream) {
  return on_machine([&](Machine& m) { return allocate_ordered(m, out, bytes, stream); });
}

cudaError_t cudaMallocFromPoolAsync(void** out, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return on_machine([&](Machine& m) {
    return m.pools.count(pool) == 0 ? cudaErrorInvalidValue : allocate_ordered(m, out, bytes, stream);
  });
}

cudaError_t cudaFreeAsync(void* base, cudaStream_t handle) {
  return on_machine([&](Machine& m) {
    Stream* const stream = m.streams.find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (base == nullptr) return cudaSuccess;
    const bool captures = stream->capture != nullptr;
    if (captures && !graph_owns(*stream->capture, base))
      return not_emulated("cudaFreeAsync in a capture, of memory that it did not allocate,");
    if (const cudaError_t error = m.memory.announce_release(base); error != cudaSuccess) return error;
    if (captures) return cudaSuccess;
    Operation operation;
    operation.run = [&m, base] { (void)m.memory.release(base); };
    m.streams.add(stream, std::move(operation));
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* out, const cudaMemPoolProps* wanted) {
  return on_machine([&](Machine& m) {
    if (wanted->location.type != cudaMemLocationTypeDevice || wanted->location.id != 0)
      return cudaErrorInvalidValue;
    auto handle = std::make_unique<char>();
    *out = reinterpret_cast<cudaMemPool_t>(handle.get());
    m.pools[*out] = std::move(handle);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return on_machine(
      [&](Machine& m) { return m.pools.erase(pool) == 0 ? cudaErrorInvalidValue : cudaSuccess; });
}

// When a pool gives memory back to the driver is nothing that a program could see here.
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void*) {
  return on_machine([&](Machine& m) {
    if (m.pools.count(pool) == 0) return cudaErrorInvalidValue;
    switch (attribute) {
      case cudaMemPoolAttrReleaseThreshold:
      case cudaMemPoolReuseFollowEventDependencies:  // memory is never given out twice here
      case cudaMemPoolReuseAllowOpportunistic:
      case cudaMemPoolReuseAllowInternalDependencies:
        return cudaSuccess;
      default:
        break;
    }
    return not_emulated("attribute " + std::to_string(static_cast<int>(attribute)) +
                        " of cudaMemPoolSetAttribute");
  });
}
