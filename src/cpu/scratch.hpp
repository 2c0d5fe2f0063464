// Per-thread scratch memory: one aligned block per thread that only grows, and a bump allocator that
// carves it up. Run over a null base, the same carving measures how much is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

namespace tessera::cpu {

inline constexpr std::size_t kScratchAlign = 128;  // a vector of any target, and its own cache lines

// A whole number of lines, so that pieces side by side share none.
constexpr std::size_t round_up_scratch(std::size_t bytes) {
  return (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
}

class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    T* const at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += round_up_scratch(static_cast<std::size_t>(count) * sizeof(T));
    return at;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

struct FreeDeleter {
  void operator()(std::byte* block) const { std::free(block); }
};
using Block = std::unique_ptr<std::byte[], FreeDeleter>;

// Null if there is no memory.
inline Block allocate_block(std::size_t bytes) {
  return Block(static_cast<std::byte*>(std::aligned_alloc(kScratchAlign, round_up_scratch(bytes))));
}

// This thread's block, at least `bytes` long; null if there is no memory. A block is given up only for a
// larger one: a user's pool may run one call while another, on the same thread, waits for it, and the waiting
// one must not lose what it already has.
inline std::byte* thread_scratch(std::size_t bytes) {
  thread_local Block block;
  thread_local std::size_t capacity = 0;
  if (capacity < bytes) {
    Block larger = allocate_block(bytes);
    if (!larger) return nullptr;
    block = std::move(larger);
    capacity = bytes;
  }
  return block.get();
}

}  // namespace tessera::cpu
