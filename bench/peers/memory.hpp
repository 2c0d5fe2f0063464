// Page-aligned memory, on ordinary pages like any program's tensors or on huge pages where the kernel
// grants them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::peers {

enum class Pages { ordinary, huge };

class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t bytes, Pages pages);  // throws std::bad_alloc
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace tessera::peers
