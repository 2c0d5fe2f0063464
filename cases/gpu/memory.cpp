// See memory.hpp.
#include "cases/gpu/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/runtime/cuda_call.hpp"

namespace tessera::gpu {
namespace {

using core::Status;
using cuda::runtime::checked;
using cuda::runtime::CurrentGpu;

// Makes the GPU current, then f(); both failures become a status.
template <class F>
Status on_gpu(int gpu, std::string_view what, F f) {
  const CurrentGpu current(gpu);
  if (Status s = checked(current.error(), "cudaSetDevice"); !s.ok()) return s;
  return checked(f(), what);
}

cudaStream_t stream_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.get()); }

void release_memory(void* p) { (void)cudaFree(p); }
void release_stream(void* p) { (void)cudaStreamDestroy(static_cast<cudaStream_t>(p)); }
void release_event(void* p) { (void)cudaEventDestroy(static_cast<cudaEvent_t>(p)); }
void release_graph(void* p) { (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(p)); }

void release_library(void* p) { (void)cudaLibraryUnload(static_cast<cudaLibrary_t>(p)); }

Status make_event(int gpu, Handle* out) {
  cudaEvent_t event = nullptr;
  Status s = on_gpu(gpu, "cudaEventCreate", [&] { return cudaEventCreate(&event); });
  if (s.ok()) *out = Handle(event, {gpu, release_event});
  return s;
}

}  // namespace

void Release::operator()(void* handle) const {
  const CurrentGpu current(gpu);
  release(handle);
}

Status Memory::allocate(int gpu, std::size_t bytes, Memory* out) {
  void* p = nullptr;
  Status s = on_gpu(gpu, "cudaMalloc", [&] { return cudaMalloc(&p, std::max<std::size_t>(bytes, 1)); });
  if (s.code == TESSERA_OUT_OF_MEMORY) {
    std::size_t free = 0, total = 0;
    const CurrentGpu current(gpu);
    (void)cudaMemGetInfo(&free, &total);
    s.message =
        fmt::format("GPU {} has no room for {} bytes: {} of its {} bytes are free", gpu, bytes, free, total);
  }
  if (!s.ok()) return s;
  out->handle_ = Handle(p, {gpu, release_memory});
  out->bytes_ = bytes;
  return s;
}

Status Memory::upload(const void* from, std::size_t bytes, std::size_t at) {
  return on_gpu(handle_.get_deleter().gpu, "copying to the GPU", [&] {
    const cudaError_t error = cudaMemcpy(data() + at, from, bytes, cudaMemcpyHostToDevice);
    // A copy from pageable memory may return before it has arrived.
    return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
  });
}

Status Memory::download(void* to, std::size_t bytes, std::size_t at) const {
  const int gpu = handle_.get_deleter().gpu;
  if (Status s = synchronize(gpu); !s.ok()) return s;
  return on_gpu(gpu, "copying from the GPU",
                [&] { return cudaMemcpy(to, data() + at, bytes, cudaMemcpyDeviceToHost); });
}

Status Memory::fill(unsigned char byte, std::size_t bytes, std::size_t at) {
  return on_gpu(handle_.get_deleter().gpu, "cudaMemset", [&] {
    const cudaError_t error = cudaMemset(data() + at, byte, bytes);
    return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
  });
}

Status synchronize(int gpu) {
  return on_gpu(gpu, "work on the GPU", [] { return cudaDeviceSynchronize(); });
}

Status Stream::create(int gpu, Stream* out) {
  cudaStream_t stream = nullptr;
  Status s = on_gpu(gpu, "cudaStreamCreate",
                    [&] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
  if (s.ok()) out->handle_ = Handle(stream, {gpu, release_stream});
  return s;
}

Status Stream::synchronize() const {
  return on_gpu(gpu(), "work on the GPU", [&] { return cudaStreamSynchronize(stream_of(*this)); });
}

Status Graph::capture(const Stream& stream, const std::function<Status()>& body, Graph* out) {
  const int gpu = stream.gpu();
  Status s = on_gpu(gpu, "starting a stream capture", [&] {
    return cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal);
  });
  if (!s.ok()) return s;
  const Status recorded = body();
  cudaGraph_t graph = nullptr;
  s = on_gpu(gpu, "ending a stream capture", [&] { return cudaStreamEndCapture(stream_of(stream), &graph); });
  if (recorded.ok() && s.ok()) {
    cudaGraphExec_t ready = nullptr;
    s = on_gpu(gpu, "cudaGraphInstantiate", [&] { return cudaGraphInstantiate(&ready, graph, 0); });
    if (s.ok()) out->handle_ = Handle(ready, {gpu, release_graph});
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  return recorded.ok() ? s : recorded;
}

Status Graph::replay(const Stream& stream) const {
  return on_gpu(stream.gpu(), "cudaGraphLaunch", [&] {
    return cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_.get()), stream_of(stream));
  });
}

Status Stopwatch::create(int gpu, Stopwatch* out) {
  if (Status s = make_event(gpu, &out->begin_); !s.ok()) return s;
  return make_event(gpu, &out->end_);
}

Status Stopwatch::start(const Stream& stream) const {
  return on_gpu(stream.gpu(), "cudaEventRecord",
                [&] { return cudaEventRecord(static_cast<cudaEvent_t>(begin_.get()), stream_of(stream)); });
}

Status Stopwatch::stop(const Stream& stream) const {
  return on_gpu(stream.gpu(), "cudaEventRecord",
                [&] { return cudaEventRecord(static_cast<cudaEvent_t>(end_.get()), stream_of(stream)); });
}

Status Stopwatch::elapsed_us(double* out) const {
  const auto begin = static_cast<cudaEvent_t>(begin_.get()), end = static_cast<cudaEvent_t>(end_.get());
  float ms = 0;
  Status s = on_gpu(end_.get_deleter().gpu, "work on the GPU", [&] {
    const cudaError_t error = cudaEventSynchronize(end);
    return error != cudaSuccess ? error : cudaEventElapsedTime(&ms, begin, end);
  });
  *out = static_cast<double>(ms) * 1e3;
  return s;
}

Status L2Flush::create(int gpu, std::size_t l2_bytes, L2Flush* out) {
  // Twice the cache: some of its lines are reached by hash, and once over would leave old ones behind.
  return Memory::allocate(gpu, std::max<std::size_t>(2 * l2_bytes, 1), &out->memory_);
}

Status L2Flush::flush(const Stream& stream) const {
  return on_gpu(stream.gpu(), "cudaMemsetAsync",
                [&] { return cudaMemsetAsync(memory_.data(), 0, memory_.bytes(), stream_of(stream)); });
}

namespace {
constexpr std::size_t kBareParameters = 1024;
constexpr const char* kBareKernel =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry bare(.param .align 64 .b8 parameters[1024])\n{\nret;\n}\n";
}  // namespace

Status BareLaunch::create(int gpu, BareLaunch* out) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  Status s = on_gpu(gpu, "cudaLibraryLoadData", [&] {
    return cudaLibraryLoadData(&library, kBareKernel, nullptr, nullptr, 0, nullptr, nullptr, 0);
  });
  if (!s.ok()) return s;
  out->library_ = Handle(library, {gpu, release_library});
  s = on_gpu(gpu, "cudaLibraryGetKernel", [&] { return cudaLibraryGetKernel(&kernel, library, "bare"); });
  out->kernel_ = kernel;
  return s;
}

Status BareLaunch::launch(const Stream& stream) const {
  alignas(64) unsigned char parameters[kBareParameters] = {};
  void* arguments[] = {parameters};
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = dim3(1);
  config.stream = stream_of(stream);
  return on_gpu(stream.gpu(), "cudaLaunchKernelExC",
                [&] { return cudaLaunchKernelExC(&config, kernel_, arguments); });
}

}  // namespace tessera::gpu
