#include "memory.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace tessera::peers {
namespace {
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
}

Buffer::Buffer(std::size_t bytes, Pages pages) : bytes_(bytes) {
  // Whole huge pages in both cases, so that the two kinds differ in their pages alone.
  mapped_bytes_ = (bytes / kHugePageBytes + 1) * kHugePageBytes;
  void* p = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  data_ = p;
#if defined(MADV_HUGEPAGE)
  // A refusal leaves ordinary pages: slower, still right.
  (void)madvise(data_, mapped_bytes_, pages == Pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  (void)pages;
#endif
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

}  // namespace tessera::peers
