// One number for each (function, GPU), found without a lock: what a launch must know every time and may
// ask CUDA for only once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace tessera::cuda::runtime {

class Remembered {
 public:
  static constexpr int kUnknown = -1;

  // The number's place, kUnknown at first; null when the table is full, and then nothing is remembered.
  std::atomic<int>* of(const void* function, int gpu) {
    // Addresses leave the top bits free, so that the GPU's number fits in beside them.
    const std::uint64_t key = reinterpret_cast<std::uintptr_t>(function) ^ static_cast<std::uint64_t>(gpu + 1)
                                                                               << 57;
    const std::uint64_t start = (key * 0x9e3779b97f4a7c15) >> 54;
    for (std::uint64_t step = 0; step < slots_.size(); ++step) {
      Slot& slot = slots_[(start + step) % slots_.size()];
      std::uint64_t found = slot.key.load(std::memory_order_acquire);
      if (found == key) return &slot.number;
      if (found == 0 && slot.key.compare_exchange_strong(found, key, std::memory_order_acq_rel)) {
        return &slot.number;
      }
      if (found == key) return &slot.number;  // another thread was first, with the same key
    }
    return nullptr;
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> key{0};
    std::atomic<int> number{kUnknown};
  };
  std::array<Slot, 1024> slots_;
};

}  // namespace tessera::cuda::runtime
