// Where the K or V rows of one head lie: evenly spaced, or in pages. Kernels take rows by their addresses, a
// tile at a time, so that they need not know which.
#pragma once

#include <cstdint>

#include "core/problem.hpp"
#include "cpu/schedule.hpp"

namespace tessera::cpu {

class Rows {
 public:
  Rows(const core::KeysValues& kv, const core::Tensor4& tensor, const Item& item, std::int64_t element_bytes)
      : pages_(kv.pages),
        stride_(tensor.row_stride * element_bytes),
        page_stride_(tensor.batch_stride * element_bytes),
        data_(static_cast<const char*>(tensor.data) +
              tensor.offset(kv.pages ? 0 : item.batch, item.kv_head, 0) * element_bytes) {}

  bool paged() const { return static_cast<bool>(pages_); }
  std::int64_t stride() const { return stride_; }  // in bytes, within a page
  const char* row(std::int64_t key) const {
    if (!pages_) return data_ + key * stride_;
    return page(key / pages_.rows) + key % pages_.rows * stride_;
  }
  // The addresses of `count` rows from key number `first` on.
  template <class T>
  void put(std::int64_t first, std::int64_t count, const T** out) const {
    if (!pages_) {
      const char* at = data_ + first * stride_;
      for (std::int64_t i = 0; i < count; ++i, at += stride_) out[i] = reinterpret_cast<const T*>(at);
      return;
    }
    std::int64_t n = first / pages_.rows, row = first % pages_.rows;
    for (std::int64_t i = 0; i < count; ++n, row = 0) {
      const char* at = page(n) + row * stride_;
      for (; i < count && row < pages_.rows; ++i, ++row, at += stride_)
        out[i] = reinterpret_cast<const T*>(at);
    }
  }

 private:
  // Tiles also read keys that no row sees, whose entries of the table may hold anything: any page does for
  // them.
  const char* page(std::int64_t n) const {
    const std::int64_t which = pages_.page(0, n);
    return data_ + (pages_.has(which) ? which : 0) * page_stride_;
  }

  core::PageTable pages_;  // of the one entry: see core::Problem::entry
  std::int64_t stride_, page_stride_;
  const char* data_;
};

}  // namespace tessera::cpu
