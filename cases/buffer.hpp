// Memory of one tensor with guard bands: the allocation is filled with a poison that reads as NaN (or
// as an absurd integer), and only elements the tensor owns are ever overwritten on purpose.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cases {

// Quiet NaNs with a payload that no arithmetic makes by itself.
inline constexpr std::uint32_t kPoisonF32 = 0x7fc5a5a5;
inline constexpr std::uint16_t kPoisonF16 = 0x7e5a;
inline constexpr std::uint16_t kPoisonBf16 = 0x7fe5;
inline constexpr std::uint8_t kPoisonF8 =
    0x7f;  // NaN of both formats, and of one the only one: no outputs. i8 has none

inline void write_poison(unsigned char* to, tessera_dtype dtype, std::size_t elements) {
  const std::size_t size = tessera_dtype_size(dtype);
  unsigned char pattern[8];
  std::memset(pattern, 0xa5, sizeof pattern);
  if (dtype == TESSERA_F32) std::memcpy(pattern, &kPoisonF32, 4);
  if (dtype == TESSERA_F16) std::memcpy(pattern, &kPoisonF16, 2);
  if (dtype == TESSERA_BF16) std::memcpy(pattern, &kPoisonBf16, 2);
  if (dtype == TESSERA_F8E4M3 || dtype == TESSERA_F8E5M2) pattern[0] = kPoisonF8;
  if (elements == 0) return;
  std::memcpy(to, pattern, size);
  // Copy what is there behind itself until all is filled: big buffers take as long as a memcpy.
  for (std::size_t done = size, all = elements * size; done < all;) {
    const std::size_t next = done < all - done ? done : all - done;
    std::memcpy(to + done, to, next);
    done += next;
  }
}

class Buffer {
 public:
  static constexpr std::size_t kGuardBytes = 1024;
  static constexpr std::size_t kAlignment = 64;

  // Room for the elements that the tensor's shape and strides span, `shift` elements off alignment.
  // Sets tensor->data.
  Buffer(std::string_view name, tessera_tensor* tensor, std::size_t shift)
      : name_(name), dtype_(tensor->dtype) {
    std::int64_t span = 1;
    for (std::int32_t d = 0; d < tensor->rank; ++d) span += (tensor->shape[d] - 1) * tensor->strides[d];
    for (std::int32_t d = 0; d < tensor->rank; ++d) span = tensor->shape[d] == 0 ? 0 : span;
    const std::size_t size = tessera_dtype_size(dtype_);
    start_ = kGuardBytes + shift * size;
    bytes_ = start_ + static_cast<std::size_t>(span) * size + kGuardBytes;
    bytes_ = (bytes_ + size - 1) / size * size;
    memory_.reset(static_cast<unsigned char*>(::operator new (bytes_, std::align_val_t{kAlignment})));
    tensor->data = memory_.get() + start_;
    tensor_ = *tensor;
    poison();
  }

  std::string_view name() const { return name_; }
  const tessera_tensor& tensor() const { return tensor_; }
  // The whole allocation, guard bands included.
  unsigned char* memory() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }
  void poison() { write_poison(memory_.get(), dtype_, bytes_ / tessera_dtype_size(dtype_)); }

  // A fingerprint of every byte, guard bands and gaps included.
  std::uint64_t fingerprint() const {
    std::uint64_t lanes[4] = {1, 2, 3, 4};
    std::size_t at = 0;
    for (; at + 32 <= bytes_; at += 32) {
      std::uint64_t words[4];
      std::memcpy(words, memory_.get() + at, 32);
      for (int l = 0; l < 4; ++l) lanes[l] = (lanes[l] ^ words[l]) * 0x9e3779b97f4a7c15 + (lanes[l] >> 29);
    }
    for (; at < bytes_; ++at) lanes[0] = (lanes[0] ^ memory_[at]) * 0x9e3779b97f4a7c15;
    return lanes[0] ^ lanes[1] << 1 ^ lanes[2] << 2 ^ lanes[3] << 3;
  }

  // Elements that follow each other both in logical order and in memory: f(index, offset, count).
  template <class F>
  void for_each_run(F f) const {
    std::int64_t run = 1, runs = 1;
    std::int32_t outer = tensor_.rank;  // dimensions that are not part of a run
    while (outer > 0 && tensor_.strides[outer - 1] == run) run *= tensor_.shape[--outer];
    for (std::int32_t d = 0; d < outer; ++d) runs *= tensor_.shape[d];
    if (run * runs == 0) return;
    std::int64_t index[TESSERA_MAX_RANK] = {0, 0, 0, 0};
    std::int64_t offset = 0;
    for (std::int64_t r = 0; r < runs; ++r) {
      f(r * run, offset, run);
      for (std::int32_t d = outer - 1; d >= 0; --d) {
        offset += tensor_.strides[d];
        if (++index[d] < tensor_.shape[d]) break;
        offset -= tensor_.shape[d] * tensor_.strides[d];
        index[d] = 0;
      }
    }
  }

  // Where each element lies, in logical order: f(index, offset in elements).
  template <class F>
  void for_each_element(F f) const {
    for_each_run([&](std::int64_t e, std::int64_t offset, std::int64_t count) {
      for (std::int64_t n = 0; n < count; ++n) f(e + n, offset + n);
    });
  }

  // True if a byte that belongs to no element is not poison any more.
  bool written_outside() const {
    const std::size_t size = tessera_dtype_size(dtype_);
    std::unique_ptr<unsigned char[]> copy(new unsigned char[bytes_]);
    std::unique_ptr<unsigned char[]> clean(new unsigned char[bytes_]);
    std::memcpy(copy.get(), memory_.get(), bytes_);
    write_poison(clean.get(), dtype_, bytes_ / size);
    for_each_run([&](std::int64_t, std::int64_t offset, std::int64_t count) {
      const std::size_t at = start_ + static_cast<std::size_t>(offset) * size;
      std::memcpy(copy.get() + at, clean.get() + at, static_cast<std::size_t>(count) * size);
    });
    return std::memcmp(copy.get(), clean.get(), bytes_) != 0;
  }

  // Index of the first element that is still poison, or -1.
  std::int64_t first_poisoned() const {
    if (dtype_ == TESSERA_F32) return first_equal<std::uint32_t>(kPoisonF32);
    if (dtype_ == TESSERA_F16) return first_equal<std::uint16_t>(kPoisonF16);
    return first_equal<std::uint16_t>(kPoisonBf16);
  }

  // Appends the bytes of every element, in logical order.
  void append_elements(std::vector<unsigned char>* out) const {
    const std::size_t size = tessera_dtype_size(dtype_);
    for_each_run([&](std::int64_t, std::int64_t offset, std::int64_t count) {
      const unsigned char* at = memory_.get() + start_ + static_cast<std::size_t>(offset) * size;
      out->insert(out->end(), at, at + static_cast<std::size_t>(count) * size);
    });
  }

 private:
  // Outputs are floating: their elements are as wide as Bits.
  template <class Bits>
  std::int64_t first_equal(Bits wanted) const {
    std::int64_t found = -1;
    for_each_run([&](std::int64_t e, std::int64_t offset, std::int64_t count) {
      const unsigned char* at = memory_.get() + start_ + static_cast<std::size_t>(offset) * sizeof(Bits);
      for (std::int64_t n = 0; n < count && found < 0; ++n) {
        Bits bits;
        std::memcpy(&bits, at + static_cast<std::size_t>(n) * sizeof(Bits), sizeof(Bits));
        if (bits == wanted) found = e + n;
      }
    });
    return found;
  }

  struct Free {
    void operator()(unsigned char* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  std::string name_;
  tessera_dtype dtype_;
  tessera_tensor tensor_{};
  std::size_t start_ = 0, bytes_ = 0;
  std::unique_ptr<unsigned char[], Free> memory_;
};

}  // namespace tessera::cases
