// The arithmetic of 8-bit tensor cores, for the yardstick: how they add up products, and what rounding P to
// 8 bits does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracle/reading.hpp"

namespace tessera::oracle {

// Numbers of an 8-bit dtype.
struct CodeSpan {
  std::span<const float> numbers;
  tessera_dtype dtype;
};

// Up to 32 products, added to an accumulator as Hopper's tensor cores do it in one instruction
// (docs/emulator.md, "How 8-bit floats are summed").
float short_sum(float accumulator, const CodeSpan& a, const CodeSpan& b);

// The sum of all products, from zero, an instruction for every 32 of them.
float short_dot(const CodeSpan& a, const CodeSpan& b);
// The same by Ada's, whose instruction adds 16 products as Hopper's adds 32, and 16 more to that sum: each
// from zero, and floats add up what they return.
float ada_dot(const CodeSpan& a, const CodeSpan& b);

// Codes of a head's keys and values as they are stored, not scaled.
struct Codes {
  std::int64_t batch = kNoEntry, kv_head = -1;
  std::vector<float> key, value;

  void load_for(const tessera_attention& p, const Sizes& n, const Row& row);
};

// Q K of the row and key j: the dot product of codes, then the scales of both.
float short_score(const tessera_attention& p, const Codes& codes, std::span<const float> query_codes,
                  const Row& row, std::int64_t j, bool by_ada);
std::vector<float> codes_of_query(const tessera_attention& p, const Row& row);

// A key that a row sees, and its weight against the row's largest score.
struct Weighted {
  std::int64_t key;
  float weight;
};
// output += P V with P * 2^8 rounded to e4m3: short sums over tiles of 128 keys, each promoted to float and
// scaled there.
void add_fast(const tessera_attention& p, const Sizes& n, const Codes& codes, const Row& row,
              std::span<const Weighted> weights, std::vector<float>* output);

}  // namespace tessera::oracle
