// Which pages of the cache are taken, and by how many requests. It knows numbers only; the memory is Cache's.
#pragma once

#include <cstddef>
#include <vector>

namespace serving {

class Pages {
 public:
  explicit Pages(int count) : uses_(static_cast<std::size_t>(count), 0) {
    for (int page = count - 1; page >= 0; --page) free_.push_back(page);
  }

  int free() const { return static_cast<int>(free_.size()); }
  int in_use() const { return static_cast<int>(uses_.size() - free_.size()); }
  bool is_shared(int page) const { return uses_[at(page)] > 1; }

  // A page for one request; there must be a free one.
  int take() {
    const int page = free_.back();
    free_.pop_back();
    uses_[at(page)] = 1;
    return page;
  }
  // One more request names it.
  void share(int page) { ++uses_[at(page)]; }
  // One request less names it.
  void give_back(int page) {
    if (--uses_[at(page)] == 0) free_.push_back(page);
  }

 private:
  static std::size_t at(int page) { return static_cast<std::size_t>(page); }

  std::vector<int> uses_;
  std::vector<int> free_;
};

}  // namespace serving
