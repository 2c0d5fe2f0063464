// Global memory: allocations of the host, whose exact ranges and written bytes are known.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "emulator/exec/launch.hpp"

namespace emulator {

struct MemoryRange {
  std::uint64_t first = 0, end = 0;
  std::uint8_t* states = nullptr;  // a byte for every byte: 1 where it was written
};

// As a launch sees it: nothing is allocated or released while one runs.
struct MemorySnapshot {
  std::vector<MemoryRange> ranges;  // sorted
  // The range that the address lies in, or the last one before it; -1: there is none before.
  int find(std::uint64_t address) const;
  bool holds(int range, std::uint64_t address, std::uint64_t bytes) const {
    return range >= 0 && address >= ranges[range].first && address + bytes <= ranges[range].end &&
           address + bytes >= address;
  }
  std::string describe(
      std::uint64_t address) const;  // "12 bytes behind the end of an allocation of 64 bytes"
};

class HostMemory : public GlobalMemory {
 public:
  ~HostMemory() override;
  void* allocate(std::size_t bytes) override;
  bool release(void* base) override;
  void mark_written(const void* at, std::size_t bytes) override;
  bool contains(const void* at, std::size_t bytes) const override;
  MemorySnapshot snapshot() const;

 private:
  struct Allocation {
    std::size_t bytes;
    std::vector<std::uint8_t> states;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Allocation> allocations_;
};

}  // namespace emulator
