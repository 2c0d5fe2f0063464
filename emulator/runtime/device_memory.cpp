#include "emulator/runtime/device_memory.hpp"

#include <cstring>
#include <iterator>
#include <new>

namespace emulator::runtime {
namespace {

std::uintptr_t number(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

}  // namespace

cudaError_t DeviceMemory::allocate(std::size_t bytes, bool ordered, void** out) {
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > free_bytes()) return cudaErrorMemoryAllocation;
  try {
    *out = memory_.allocate(bytes);
  } catch (const std::bad_alloc&) {
    *out = nullptr;
  }
  if (*out == nullptr) return cudaErrorMemoryAllocation;
  allocations_[number(*out)] = {bytes, ordered, false};
  used_ += bytes;
  return cudaSuccess;
}

cudaError_t DeviceMemory::release(void* base) {
  const auto found = allocations_.find(number(base));
  if (found == allocations_.end() || !memory_.release(base)) return cudaErrorInvalidValue;
  used_ -= found->second.bytes;
  allocations_.erase(found);
  return cudaSuccess;
}

cudaError_t DeviceMemory::announce_release(void* base) {
  const auto found = allocations_.find(number(base));
  if (found == allocations_.end() || !found->second.ordered || found->second.leaving)
    return cudaErrorInvalidValue;
  found->second.leaving = true;
  return cudaSuccess;
}

bool DeviceMemory::contains(const void* at, std::size_t bytes) const {
  const auto after = allocations_.upper_bound(number(at));
  if (after == allocations_.begin()) return false;
  const auto& [base, allocation] = *std::prev(after);
  const std::size_t offset = number(at) - base;
  return offset < allocation.bytes && bytes <= allocation.bytes - offset;
}

void DeviceMemory::write(void* to, const void* from, std::size_t bytes) {
  std::memmove(to, from, bytes);
  memory_.mark_written(to, bytes);
}

void DeviceMemory::fill(void* to, int byte, std::size_t bytes) {
  std::memset(to, byte, bytes);
  memory_.mark_written(to, bytes);
}

}  // namespace emulator::runtime
