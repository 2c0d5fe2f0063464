#include "threads.hpp"

namespace serving {

Threads::Threads(int count) {
  for (int n = 1; n < count; ++n) workers_.emplace_back([this] { wait_for_work(); });
}

Threads::~Threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begun_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Threads::operator()(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  if (count <= 1 || workers_.empty()) {
    for (std::int64_t n = 0; n < count; ++n) task(n);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    tasks_ = count;
    next_ = 0;
    busy_ = static_cast<int>(workers_.size());
    ++round_;
  }
  begun_.notify_all();
  take_part();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return busy_ == 0; });
}

void Threads::take_part() {
  for (std::int64_t n = next_++; n < tasks_; n = next_++) (*task_)(n);
}

void Threads::wait_for_work() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    take_part();
    lock.lock();
    if (--busy_ == 0) ended_.notify_one();
  }
}

}  // namespace serving
