#include "emulator/exec/global_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace emulator {

int MemorySnapshot::find(std::uint64_t address) const {
  const auto it =
      std::upper_bound(ranges.begin(), ranges.end(), address,
                       [](std::uint64_t at, const MemoryRange& range) { return at < range.first; });
  return static_cast<int>(it - ranges.begin()) - 1;
}

std::string MemorySnapshot::describe(std::uint64_t address) const {
  const int before = find(address);
  const auto size = [&](int i) { return std::to_string(ranges[i].end - ranges[i].first) + " bytes"; };
  std::string out = "no allocation is near";
  std::uint64_t best = std::uint64_t{1} << 32;
  if (before >= 0) {
    if (address < ranges[before].end) return "inside an allocation of " + size(before);
    const std::uint64_t past = address - ranges[before].end;
    if (past < best)
      out = std::to_string(best = past) + " bytes behind the end of an allocation of " + size(before);
  }
  const std::size_t after = static_cast<std::size_t>(before + 1);
  if (after < ranges.size() && ranges[after].first - address < best)
    out =
        std::to_string(ranges[after].first - address) + " bytes before an allocation of " + size(before + 1);
  return out;
}

HostMemory::~HostMemory() {
  for (auto& [base, allocation] : allocations_) std::free(reinterpret_cast<void*>(base));
}

void* HostMemory::allocate(std::size_t bytes) {
  const std::size_t room = (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256;
  void* base = std::aligned_alloc(256, room);
  if (base == nullptr) return nullptr;
  std::memset(base, 0xcd, room);  // what is read before it is written is not zero
  const std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<std::uint64_t>(base)] = {bytes, std::vector<std::uint8_t>(bytes, 0)};
  return base;
}

bool HostMemory::release(void* base) {
  const std::lock_guard lock(mutex_);
  if (allocations_.erase(reinterpret_cast<std::uint64_t>(base)) == 0) return false;
  std::free(base);
  return true;
}

void HostMemory::mark_written(const void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uint64_t>(at);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return;
  --it;
  const std::uint64_t offset = address - it->first;
  if (offset >= it->second.bytes) return;
  std::memset(it->second.states.data() + offset, 1,
              std::min<std::uint64_t>(bytes, it->second.bytes - offset));
}

bool HostMemory::contains(const void* at, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uint64_t>(at);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return false;
  --it;
  const std::uint64_t offset = address - it->first;
  return offset <= it->second.bytes && bytes <= it->second.bytes - offset;
}

MemorySnapshot HostMemory::snapshot() const {
  const std::lock_guard lock(mutex_);
  MemorySnapshot out;
  for (const auto& [base, allocation] : allocations_)
    out.ranges.push_back(
        {base, base + allocation.bytes, const_cast<std::uint8_t*>(allocation.states.data())});
  return out;
}

}  // namespace emulator
