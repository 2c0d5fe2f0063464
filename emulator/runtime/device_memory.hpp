// The memory of the emulated GPU: what is allocated, how much is left, and copies that stay inside it.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <map>

#include "emulator/exec/launch.hpp"

namespace emulator::runtime {

class DeviceMemory {
 public:
  DeviceMemory(GlobalMemory& memory, std::size_t total_bytes) : memory_(memory), total_(total_bytes) {}

  // `ordered`: in the order of a stream, so that cudaFreeAsync may give it back. Nothing at all for no bytes.
  cudaError_t allocate(std::size_t bytes, bool ordered, void** out);
  // At once. Not the base of an allocation: cudaErrorInvalidValue.
  cudaError_t release(void* base);
  // Memory whose end is in a stream's queue: still there, but nobody may give it back again.
  cudaError_t announce_release(void* base);

  // Whether `bytes` from here on lie in one allocation.
  [[nodiscard]] bool contains(const void* at, std::size_t bytes) const;
  void write(void* to, const void* from, std::size_t bytes);
  void fill(void* to, int byte, std::size_t bytes);

  [[nodiscard]] std::size_t free_bytes() const { return total_ - used_; }
  [[nodiscard]] std::size_t total_bytes() const { return total_; }

 private:
  struct Allocation {
    std::size_t bytes = 0;
    bool ordered = false;
    bool leaving = false;
  };
  GlobalMemory& memory_;
  std::size_t total_, used_ = 0;
  std::map<std::uintptr_t, Allocation> allocations_;
};

}  // namespace emulator::runtime
