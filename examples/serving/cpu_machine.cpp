#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "machine.hpp"
#include "threads.hpp"

namespace serving {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kColumns = 32;  // of a product that are summed at once, in registers

class CpuMachine final : public Machine {
 public:
  explicit CpuMachine(int threads)
      : threads_(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
  }
  ~CpuMachine() override {
    for (void* memory : memory_) ::operator delete(memory, std::align_val_t(kAlignment));
  }

  tessera::Device device(tessera::Workspace workspace) override {
    return tessera::cpu({.threads = threads_.count(), .pool = threads_, .workspace = workspace});
  }
  const char* name() const override { return "cpu"; }

  void* allocate(std::size_t bytes) override {
    memory_.push_back(nullptr);
    return memory_.back() = ::operator new(bytes, std::align_val_t(kAlignment));
  }
  void upload(const void* from, std::size_t bytes, void* to) override { copy(from, bytes, to); }
  void download(const void* from, std::size_t bytes, void* to) override { copy(from, bytes, to); }
  void copy(const void* from, std::size_t bytes, void* to) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  bool replays() const override { return false; }
  void run(bool, const std::function<void()>& work) override { work(); }

  void gather(const float* table, const std::int32_t* rows, int count, int width, float* to) override {
    for (int r = 0; r < count; ++r) std::copy_n(table + std::int64_t{rows[r]} * width, width, to + r * width);
  }

  void normalise(const float* x, int rows, int width, float* to) override {
    for (int r = 0; r < rows; ++r, x += width, to += width) {
      float squares = 0;
      for (int j = 0; j < width; ++j) squares += x[j] * x[j];
      const float factor = 1.0f / std::sqrt(squares / static_cast<float>(width) + 1e-6f);
      for (int j = 0; j < width; ++j) to[j] = x[j] * factor;
    }
  }

  void multiply(const float* x, const float* w, int rows, int in, int out, bool add, float* to) override {
    constexpr std::int64_t kWorthThreads = 1 << 17;  // products: fewer are done before a thread has woken up
    const auto block = [=](std::int64_t n) { columns(x, w, rows, in, out, static_cast<int>(n), add, to); };
    const int blocks = out / kColumns;
    if (std::int64_t{rows} * in * out >= kWorthThreads) return threads_(blocks, block);
    for (int n = 0; n < blocks; ++n) block(n);
  }

  void gate(const float* x, int rows, int width, float* to) override {
    for (int r = 0; r < rows; ++r, x += std::ptrdiff_t{2} * width, to += width)
      for (int j = 0; j < width; ++j) to[j] = x[j] / (1.0f + std::exp(-x[j])) * x[width + j];
  }

 private:
  // kColumns columns of the product, row by row: a weight is added to its sum in the order of `in`, always.
  static void columns(const float* x, const float* w, int rows, int in, int out, int block, bool add,
                      float* to) {
    const int first = block * kColumns;
    for (int r = 0; r < rows; ++r) {
      float sums[kColumns] = {};
      const float* weights = w + first;
      for (int i = 0; i < in; ++i, weights += out)
        for (int j = 0; j < kColumns; ++j) sums[j] += x[r * in + i] * weights[j];
      float* const row = to + std::int64_t{r} * out + first;
      for (int j = 0; j < kColumns; ++j) row[j] = (add ? row[j] : 0.0f) + sums[j];
    }
  }

  Threads threads_;
  std::vector<void*> memory_;
};

}  // namespace

std::unique_ptr<Machine> make_cpu_machine(int threads) { return std::make_unique<CpuMachine>(threads); }

}  // namespace serving
