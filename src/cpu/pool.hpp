// The process-wide worker threads of the CPU backend.
//
// Workers start with the first call that wants them and stay. The caller always takes part, so a call
// finishes even if no worker is free, none could be started, or the process has forked since.
#pragma once

#include <cstdint>

namespace tessera::cpu {

inline constexpr int kMaxThreads = 256;

// CPUs this process may run on.
int available_cpus();

class Task {
 public:
  // Called once by every helping thread before its first item; false makes the thread stay out (it
  // could not get its scratch memory, say). The calling thread is expected to be ready already.
  virtual bool enter() noexcept = 0;
  virtual void run(std::int64_t item) noexcept = 0;

 protected:
  ~Task() = default;
};

// Runs items 0 ... items - 1, each once, on at most `threads` threads, the caller among them. Returns
// when all of them are done.
void run_parallel(Task& task, std::int64_t items, int threads) noexcept;

}  // namespace tessera::cpu
