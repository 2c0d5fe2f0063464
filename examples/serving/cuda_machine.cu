// The model on a GPU. One kernel an operation and one thread a result: plain rather than fast, and each row
// by itself. A step that comes again with the same sizes, a decode, is captured once in a CUDA graph,
// tessera's calls included; offsets, lengths and page table are device memory, so replays find the new ones
// there.
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "machine.hpp"

namespace serving {
namespace {

constexpr int kThreads = 128;

void must(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

__device__ int thread_of_grid() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

__global__ void gather_kernel(const float* table, const std::int32_t* rows, int count, int width, float* to) {
  const int n = thread_of_grid();
  if (n < count * width) to[n] = table[rows[n / width] * width + n % width];
}

__global__ void normalise_kernel(const float* x, int rows, int width, float* to) {
  const int r = thread_of_grid();
  if (r >= rows) return;
  x += r * width;
  to += r * width;
  float squares = 0;
  for (int j = 0; j < width; ++j) squares += x[j] * x[j];
  const float factor = 1.0f / sqrtf(squares / static_cast<float>(width) + 1e-6f);
  for (int j = 0; j < width; ++j) to[j] = x[j] * factor;
}

__global__ void multiply_kernel(const float* x, const float* w, int rows, int in, int out, bool add,
                                float* to) {
  const int n = thread_of_grid();
  if (n >= rows * out) return;
  const int row = n / out, column = n % out;
  float sum = 0;
  for (int i = 0; i < in; ++i) sum += x[row * in + i] * w[i * out + column];
  to[n] = (add ? to[n] : 0.0f) + sum;
}

__global__ void gate_kernel(const float* x, int rows, int width, float* to) {
  const int n = thread_of_grid();
  if (n >= rows * width) return;
  const float* const row = x + n / width * 2 * width;
  const float up = row[width + n % width], gate = row[n % width];
  to[n] = gate / (1.0f + __expf(-gate)) * up;
}

class CudaMachine final : public Machine {
 public:
  CudaMachine() {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
      throw std::runtime_error("--device is 'cuda', but there is no GPU here that CUDA can use");
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~CudaMachine() override {
    cudaStreamSynchronize(stream_);
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    for (void* memory : memory_) cudaFree(memory);
    cudaStreamDestroy(stream_);
  }

  tessera::Device device(tessera::Workspace workspace) override {
    return tessera::cuda(stream_, 0, nullptr, workspace);
  }
  const char* name() const override { return "cuda"; }

  void* allocate(std::size_t bytes) override {
    memory_.push_back(nullptr);
    must(cudaMalloc(&memory_.back(), bytes));
    return memory_.back();
  }
  void upload(const void* from, std::size_t bytes, void* to) override {
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
  }
  void download(const void* from, std::size_t bytes, void* to) override {
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    must(cudaStreamSynchronize(stream_));
  }
  void copy(const void* from, std::size_t bytes, void* to) override {
    must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  }

  bool replays() const override { return true; }
  // Once as it is, so that what is loaded on first use is loaded; then captured; then replayed.
  void run(bool again, const std::function<void()>& work) override {
    if (!again || !warm_) {
      work();
      warm_ = warm_ || again;
      return;
    }
    if (graph_ == nullptr) capture(work);
    must(cudaGraphLaunch(graph_, stream_));
  }

  void gather(const float* table, const std::int32_t* rows, int count, int width, float* to) override {
    if (const int blocks = blocks_for(count * width))
      gather_kernel<<<blocks, kThreads, 0, stream_>>>(table, rows, count, width, to);
    must(cudaGetLastError());
  }
  void normalise(const float* x, int rows, int width, float* to) override {
    if (const int blocks = blocks_for(rows))
      normalise_kernel<<<blocks, kThreads, 0, stream_>>>(x, rows, width, to);
    must(cudaGetLastError());
  }
  void multiply(const float* x, const float* w, int rows, int in, int out, bool add, float* to) override {
    if (const int blocks = blocks_for(rows * out))
      multiply_kernel<<<blocks, kThreads, 0, stream_>>>(x, w, rows, in, out, add, to);
    must(cudaGetLastError());
  }
  void gate(const float* x, int rows, int width, float* to) override {
    if (const int blocks = blocks_for(rows * width))
      gate_kernel<<<blocks, kThreads, 0, stream_>>>(x, rows, width, to);
    must(cudaGetLastError());
  }

 private:
  static int blocks_for(int threads) { return (threads + kThreads - 1) / kThreads; }

  void capture(const std::function<void()>& work) {
    cudaGraph_t graph = nullptr;
    must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    work();
    must(cudaStreamEndCapture(stream_, &graph));
    const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    must(made);
  }

  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  bool warm_ = false;
  std::vector<void*> memory_;
};

}  // namespace

std::unique_ptr<Machine> make_cuda_machine() { return std::make_unique<CudaMachine>(); }

}  // namespace serving
