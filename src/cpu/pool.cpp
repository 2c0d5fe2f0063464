// Worker threads: see pool.hpp.
//
// A call is a Job on its caller's stack, linked into the pool's list while it can still use helpers.
// Items are handed out by one atomic counter. A worker that runs out of work polls for some
// tens of microseconds before it sleeps, so that a stream of small calls does not pay a wake-up each.
#include "cpu/pool.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace tessera::cpu {
namespace {

// Some tens of microseconds: about what a sleep and a wake-up cost, and what a caller of small problems does
// between two of them.
constexpr int kPolls = 2000;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Leaves the given CPU if the calling thread runs there and may run elsewhere. A kernel may wake a helper on
// the CPU of the thread that asked for help, though another is idle (virtual ones that have halted do not
// count as idle on Linux); there it would wait for that thread instead of helping it.
void step_aside(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu) return;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(static_cast<unsigned>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
}

struct Job {
  Task* task = nullptr;
  int cpu = sched_getcpu();  // where the caller is
  std::int64_t items = 0;
  std::atomic<std::int64_t> next{0};
  std::atomic<int> helpers{0};  // inside the job now; our own change it only under the pool's mutex
  int wanted = 0;               // helpers that may still join; under the pool's mutex
  Job* after = nullptr;         // the pool's list; under the pool's mutex

  void work(bool caller) noexcept {
    std::byte* const scratch = task->enter(caller);
    if (scratch == nullptr) return;
    for (std::int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < items;)
      task->run(item, scratch);
  }
};

class Pool {
 public:
  explicit Pool(Pool* predecessor) : predecessor_(predecessor) {}

  void run(Job& job, int helpers) noexcept {
    {
      const std::lock_guard lock(mutex_);
      grow(helpers);
      job.wanted = std::min<int>(helpers, static_cast<int>(workers_.size()));
      job.after = jobs_;
      jobs_ = &job;
      published_.fetch_add(1, std::memory_order_release);
    }
    for (int i = 0; i < helpers; ++i) wake_.notify_one();
    job.work(true);
    finish(job);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      published_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

 private:
  // Fewer threads than asked for is slower, not wrong, so a failure to start one is no error.
  void grow(int count) noexcept {
    if (stopping_) return;
    try {
      while (static_cast<int>(workers_.size()) < count) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
  }

  // Takes the job off the list and waits until the last helper has left it.
  void finish(Job& job) noexcept {
    std::unique_lock lock(mutex_);
    Job** link = &jobs_;
    while (*link != &job) link = &(*link)->after;
    *link = job.after;
    if (job.helpers.load(std::memory_order_relaxed) == 0) return;
    lock.unlock();
    for (int i = 0; i < kPolls && job.helpers.load(std::memory_order_acquire) != 0; ++i) relax();
    // Under the lock again even if the poll succeeded: the helper that left last still held it then.
    lock.lock();
    left_.wait(lock, [&] { return job.helpers.load(std::memory_order_relaxed) == 0; });
  }

  Job* find() const {
    for (Job* job = jobs_; job != nullptr; job = job->after) {
      if (job->wanted > 0 && job->next.load(std::memory_order_relaxed) < job->items) return job;
    }
    return nullptr;
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      Job* job = find();
      if (job != nullptr && job->cpu == sched_getcpu()) {
        // Before joining: the move can take longer than the job, and its caller would wait for us.
        const int cpu = job->cpu;
        lock.unlock();
        step_aside(cpu);
        lock.lock();
        job = find();
      }
      if (job != nullptr) {
        help(*job, lock);
        continue;
      }
      if (stopping_) return;
      const std::uint64_t seen = published_.load(std::memory_order_relaxed);
      lock.unlock();
      for (int i = 0; i < kPolls && published_.load(std::memory_order_acquire) == seen; ++i) relax();
      lock.lock();
      wake_.wait(lock, [&] { return published_.load(std::memory_order_relaxed) != seen; });
    }
  }

  void help(Job& job, std::unique_lock<std::mutex>& lock) {
    --job.wanted;
    job.helpers.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    job.work(false);
    lock.lock();
    if (job.helpers.fetch_sub(1, std::memory_order_release) == 1) left_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable wake_;  // there is a new job, or the pool stops
  std::condition_variable left_;  // a job's last helper has left it
  std::atomic<std::uint64_t> published_{0};
  Job* jobs_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
  // After a fork the child's threads are gone and the old pool's mutex may be locked for ever: the
  // child starts a new pool and only keeps the old one reachable.
  [[maybe_unused]] Pool* const predecessor_;
};

std::atomic<Pool*> current_pool{nullptr};
std::atomic<Pool*> retired_pool{nullptr};
std::atomic<bool> at_exit{false};

void abandon_pool_in_child() {
  Pool* const old = current_pool.exchange(nullptr);
  if (old != nullptr) retired_pool.store(old);
}

Pool* pool() {
  Pool* found = current_pool.load(std::memory_order_acquire);
  if (found != nullptr || at_exit.load(std::memory_order_relaxed)) return found;
  static const int registered = pthread_atfork(nullptr, nullptr, abandon_pool_in_child);
  if (registered != 0) return nullptr;
  Pool* const made = new (std::nothrow) Pool(retired_pool.load());
  if (made == nullptr) return nullptr;
  if (current_pool.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
  delete made;
  return found;
}

// Joins the workers when the program ends or the library is unloaded. The pool itself stays, for
// callers that are still inside it.
struct Janitor {
  constexpr Janitor() = default;
  ~Janitor() {
    at_exit.store(true);
    Pool* const last = current_pool.exchange(nullptr);
    if (last == nullptr) return;
    retired_pool.store(last);
    last->stop();
  }
};
[[maybe_unused]] const Janitor janitor;

// A task of a foreign pool: takes items until none is left, so it matters neither how many tasks are run nor
// which. It is counted while it is inside, and what it wrote is visible to whoever sees that it has left.
extern "C" void foreign_task(void* argument, std::int64_t) noexcept {
  Job& job = *static_cast<Job*>(argument);
  job.helpers.fetch_add(1, std::memory_order_relaxed);
  job.work(false);
  job.helpers.fetch_sub(1, std::memory_order_release);
}

void run_on(const ForeignPool& foreign, Job& job, std::int64_t tasks) noexcept {
  foreign.run(foreign.context, tasks, foreign_task, &job);
  job.work(true);  // whatever the pool left undone
  while (job.helpers.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

}  // namespace

void run_parallel(Task& task, std::int64_t items, int threads, ForeignPool foreign) noexcept {
  Job job;
  job.task = &task;
  job.items = items;
  const int helpers = static_cast<int>(std::min<std::int64_t>(threads, items)) - 1;
  if (helpers > 0 && foreign.run != nullptr) return run_on(foreign, job, helpers + 1);
  Pool* const shared = helpers > 0 ? pool() : nullptr;
  if (shared == nullptr) {
    job.work(true);
  } else {
    shared->run(job, helpers);
  }
}

}  // namespace tessera::cpu
