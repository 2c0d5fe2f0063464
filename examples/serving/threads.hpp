// The engine's own threads. Its matrix products run on them, and tessera's calls too (CpuOptions::pool), so
// that a process has one set of threads and not two.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace serving {

class Threads {
 public:
  explicit Threads(int count);  // the caller's included
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads();

  int count() const { return static_cast<int>(workers_.size()) + 1; }
  // task(0) ... task(count - 1), on any of them; returns when all have returned.
  void operator()(std::int64_t count, const std::function<void(std::int64_t)>& task);

 private:
  void wait_for_work();
  void take_part();

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const std::function<void(std::int64_t)>* task_ = nullptr;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::uint64_t round_ = 0;  // counts calls, so that a worker joins each of them once
  int busy_ = 0;             // workers that have not ended this round
  bool stop_ = false;
};

}  // namespace serving
