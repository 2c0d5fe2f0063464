// Random numbers that are a function of (seed, stream, index) alone: any element can be made by any
// thread, and every platform makes the same ones because nothing but integers and exact float
// arithmetic is used (log and cos of different C libraries differ in the last bit).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace tessera::cases {

// Each tensor of a case draws from a stream of its own, so that adding an option leaves the others' values
// alone.
enum Stream : std::uint64_t {
  kQuery = 1,
  kKey,
  kValue,
  kMask,
  kHiddenRow,
  kLengths,
  kSinks,
  kChoices,
  kPages,
  kPrior,
  kScales,  // and the next two: of query, key and value
  kPositions = kScales + 3,
  kKeyTail
};

// The output function of SplitMix64: a bijection that turns a counter into noise.
constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// 65,536 draws from a normal distribution (mean 0, deviation 1), each the sum of twelve uniform ones.
inline const std::array<float, 65536>& normal_table() {
  static const auto table = [] {
    auto t = std::make_unique<std::array<float, 65536>>();
    for (std::uint64_t n = 0; n < t->size(); ++n) {
      std::int64_t sum = 0;  // twelve numbers of 20 bits, exact in a float64
      for (std::uint64_t part = 0; part < 4; ++part) {
        const std::uint64_t word = scramble(n * 4 + part);
        sum += static_cast<std::int64_t>((word & 0xfffff) + (word >> 20 & 0xfffff) + (word >> 40 & 0xfffff));
      }
      (*t)[n] = static_cast<float>(static_cast<double>(sum - 6 * 0xfffff) / 0xfffff);
    }
    return t;
  }();
  return *table;
}

class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream)
      : key_(scramble(scramble(seed) ^ stream * 0xd1342543de82ef95)) {}

  std::uint64_t word(std::uint64_t index) const { return scramble(key_ + index); }
  // Four elements share one word; lane() says which entry of normal_table() an element takes.
  std::uint16_t lane(std::uint64_t index) const {
    return static_cast<std::uint16_t>(word(index >> 2) >> (16 * (index & 3)));
  }
  float normal(std::uint64_t index) const { return normal_table()[lane(index)]; }
  // 0 ... limit - 1
  std::int64_t below(std::uint64_t index, std::int64_t limit) const {
    return static_cast<std::int64_t>(word(index) % static_cast<std::uint64_t>(limit));
  }

 private:
  std::uint64_t key_;
};

}  // namespace tessera::cases
