// Measuring this CPU; see measure.hpp.
#include "cli/measure.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "cli/common.hpp"
#include "cli/probe.hpp"
#include "cpu/threads.hpp"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWindows = 5;
constexpr std::size_t kGrain = 4096;

// Pages of our own, in huge pages where the system gives them: with 4 KiB pages the page walks, not the
// memory, would be measured.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<unsigned char*>(mapped);
#if defined(MADV_HUGEPAGE)
    madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    std::memset(data_, 1, bytes);  // untouched pages would all be one page of zeros
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] const unsigned char* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  unsigned char* data_ = nullptr;
  std::size_t bytes_;
};

// Kept from one measurement to the next: filling a fresh buffer takes longer than measuring with it.
const Pages& shared_pages(std::size_t bytes) {
  static std::unique_ptr<Pages> pages;
  if (!pages || pages->bytes() < bytes) {
    pages.reset();
    pages = std::make_unique<Pages>(bytes);
  }
  return *pages;
}

// Runs `piece(thread)` over and over on every thread for `seconds`, in windows; each call returns the
// amount of work done. Best window's total rate.
double best_rate(int threads, double seconds, const std::function<double(int)>& piece) {
  const auto window = std::chrono::duration<double>(seconds / kWindows);
  double best = 0;
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::barrier start(threads, [&]() noexcept {
    double total = 0;
    for (const double rate : rates) total += rate;
    best = std::max(best, total);
  });
  const auto work = [&](int thread) {
    piece(thread);  // warm: pages, caches, clock
    for (int w = 0; w <= kWindows; ++w) {
      start.arrive_and_wait();  // collects the window before, then all start together
      if (w == kWindows) return;
      const auto begin = Clock::now();
      double done = 0;
      do done += piece(thread);
      while (Clock::now() - begin < window);
      rates[static_cast<std::size_t>(thread)] =
          done / std::chrono::duration<double>(Clock::now() - begin).count();
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
  return best;
}

}  // namespace

int resolve_threads(int threads) { return cpu::thread_count(threads); }

double measure_flops_per_s(int threads, double seconds) {
  return best_rate(threads, seconds, [](int) { return probe().multiply_add(20000); });
}

double measure_bytes_per_s(std::size_t buffer_bytes, int threads, int streams, double seconds) {
  const std::size_t unit = kGrain * static_cast<std::size_t>(streams);
  const std::size_t share =
      std::max(buffer_bytes / static_cast<std::size_t>(threads) / unit, std::size_t{1}) * unit;
  const Pages& pages = shared_pages(share * static_cast<std::size_t>(threads));
  // Small shares are read several times per look at the clock.
  const std::size_t repeats = std::max<std::size_t>(1, (std::size_t{1} << 20) / share);
  std::atomic<std::uint64_t> sink = 0;
  return best_rate(threads, seconds, [&](int thread) {
    const unsigned char* mine = pages.data() + static_cast<std::size_t>(thread) * share;
    std::uint64_t mix = 0;
    for (std::size_t r = 0; r < repeats; ++r) mix += probe().read(mine, share, streams);
    sink.fetch_add(mix, std::memory_order_relaxed);
    return static_cast<double>(share * repeats);
  });
}

std::size_t dram_buffer_bytes() {
  std::size_t cache = std::size_t{32} << 20;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  if (const long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE); l3 > 0) cache = static_cast<std::size_t>(l3);
#endif
  const auto quarter_of_memory = static_cast<std::size_t>(this_machine().memory_bytes / 4);
  return std::min(std::clamp(cache * 6, std::size_t{128} << 20, std::size_t{1} << 30), quarter_of_memory);
}

CpuRates measure_for(const cases::Case& c, int threads) {
  static double flops_per_s = 0;
  static int measured_threads = 0;
  threads = resolve_threads(threads);
  if (measured_threads != threads) flops_per_s = measure_flops_per_s(threads), measured_threads = threads;
  const double bytes = std::clamp(cases::work(c).bytes, 65536.0, static_cast<double>(dram_buffer_bytes()));
  // Hot data may stream best as one part or as four: the better of the two is the limit.
  const auto size = static_cast<std::size_t>(bytes);
  return {flops_per_s,
          std::max(measure_bytes_per_s(size, threads, 1, 0.08), measure_bytes_per_s(size, threads, 4, 0.08)),
          threads};
}

}  // namespace tessera::cli
