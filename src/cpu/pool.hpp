// The process-wide worker threads of the CPU backend.
//
// Workers start with the first call that wants them and stay. The caller always takes part, so a call
// finishes even if no worker is free, none could be started, or the process has forked since.
#pragma once

#include <tessera/tessera.h>

#include <cstddef>
#include <cstdint>

namespace tessera::cpu {

class Task {
 public:
  // Scratch memory for the thread that asks: once before its first item. Null makes it stay out; the calling
  // thread, which must not, is never refused.
  virtual std::byte* enter(bool caller) noexcept = 0;
  virtual void run(std::int64_t item, std::byte* scratch) noexcept = 0;

 protected:
  ~Task() = default;
};

// A pool of the user's to run on instead, as tessera_device has it; run is null where there is none.
struct ForeignPool {
  tessera_run_tasks run = nullptr;
  void* context = nullptr;
};

// Runs items 0 ... items - 1, each once, on at most `threads` threads. Returns when all of them are done.
void run_parallel(Task& task, std::int64_t items, int threads, ForeignPool foreign = {}) noexcept;

}  // namespace tessera::cpu
