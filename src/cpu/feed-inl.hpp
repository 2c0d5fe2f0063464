// How the keys of a tile get from the caller's memory to the matrix products of many rows: K and V rows are
// converted (to float, or to pairs) just before the block of keys they belong to is first needed, and those
// of the next tile are asked for meanwhile. All at once the moving would take its own time; between blocks of
// arithmetic most of it hides.
#if defined(TESSERA_CPU_FEED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_FEED_INL
#undef TESSERA_CPU_FEED_INL
#else
#define TESSERA_CPU_FEED_INL
#endif

#include <algorithm>

#include "cpu/codes-inl.hpp"
#include "cpu/rows.hpp"
#include "cpu/tiles-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::HWY_NAMESPACE {

// A K or V tile of floats (pairs lie in memory of the same type): row j at data + j * stride.
struct FloatTile {
  FloatTile from(std::size_t row) const { return {data + row * stride, stride}; }
  const float* data = nullptr;
  std::size_t stride = 0;
};

// All K or all V rows of a head, and the scratch memory for a tile of them.
struct FeedRows {
  Rows from;
  std::int64_t bytes;  // of a row
  std::size_t length;
  float* to;
  std::size_t to_stride;
  RowConverter convert;             // null: K is read where it is, or there are codes
  const CodeRows* codes = nullptr;  // null: not of 8 bits
};

class Feed {
 public:
  Feed(const FeedRows& key, const FeedRows& value) : key_(key), value_(value) {}

  // The tile is now `count` keys from key number `first` on; `more` keys are in the one that comes after it.
  // There will be about `blocks` calls of fetch_ahead.
  void start(std::int64_t first, std::size_t count, std::size_t more, std::size_t blocks) {
    first_ = first;
    keys_ = count;
    done_ = 0;
    tiny_key_ = tiny_value_ = false;
    ahead_ = first + static_cast<std::int64_t>(count);
    left_ = more;
    at_once_ = more / std::max<std::size_t>(blocks, 1) + 1;
  }

  // The tile's first `end` rows of K and V are there afterwards.
  HWY_INLINE void need(std::size_t end) {
    if (done_ < end) convert_to(end);
  }
  HWY_INLINE void need_all() { need(keys_); }

  // Asks for some rows of the next tile: few at a time, because a core can wait for a few lines only.
  HWY_INLINE void fetch_ahead() {
    for (std::size_t i = 0; i < at_once_ && left_ > 0; ++i, --left_, ++ahead_) {
      fetch_row(key_);
      fetch_row(value_);
    }
  }

  FloatTile key() const {
    if (key_.convert != nullptr || key_.codes != nullptr) return {key_.to, key_.to_stride};
    return {reinterpret_cast<const float*>(key_.from.row(first_)),
            static_cast<std::size_t>(key_.from.stride()) / sizeof(float)};
  }
  FloatTile value() const { return {value_.to, value_.to_stride}; }
  std::int64_t first() const { return first_; }
  // After need_all(): whether V held inf or NaN in this tile or one before it.
  bool careful() const { return careful_; }
  // Whether what is there of this tile's K or V holds tiny numbers.
  bool tiny_key() const { return tiny_key_; }
  bool tiny_value() const { return tiny_value_; }

 private:
  HWY_INLINE void fetch_row(const FeedRows& rows) const {
    constexpr int kSecondCache = 2;  // the first is full of what is in use
    const char* const row = rows.from.row(ahead_);
    for (std::int64_t b = 0; b < rows.bytes; b += kLineBytes) __builtin_prefetch(row + b, 0, kSecondCache);
  }

  // The whole tile at once: several keys share the lines of a transposed V.
  void convert_codes() {
    key_.codes->read(first_, keys_, key_.to, key_.to_stride);
    const unsigned hold = value_.codes->read(first_, keys_, value_.to, value_.to_stride);
    careful_ = careful_ || (hold & kNotFinite) != 0;
    done_ = keys_;
  }

  HWY_NOINLINE void convert_to(std::size_t end) {
    if (key_.codes != nullptr) return convert_codes();
    const std::int64_t at = first_ + static_cast<std::int64_t>(done_);
    const std::size_t rows = end - done_;
    const char* from[kMaxKeyTile];
    if (key_.convert != nullptr) {
      key_.from.put(at, static_cast<std::int64_t>(rows), from);
      const unsigned hold =
          key_.convert(from, rows, key_.length, key_.to + done_ * key_.to_stride, key_.to_stride);
      tiny_key_ = tiny_key_ || (hold & kTiny) != 0;
    }
    value_.from.put(at, static_cast<std::int64_t>(rows), from);
    const unsigned hold =
        value_.convert(from, rows, value_.length, value_.to + done_ * value_.to_stride, value_.to_stride);
    tiny_value_ = tiny_value_ || (hold & kTiny) != 0;
    careful_ = careful_ || (hold & kNotFinite) != 0;
    done_ = end;
  }

  FeedRows key_, value_;
  bool careful_ = false, tiny_key_ = false, tiny_value_ = false;
  std::int64_t first_ = 0, ahead_ = 0;
  std::size_t keys_ = 0, done_ = 0, left_ = 0, at_once_ = 0;
};

}  // namespace tessera::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
