// New keys and values, and RoPE: the words of such cases, their tensors, what those hold, and what key and
// value have to hold behind a call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cases/buffer.hpp"
#include "cases/case.hpp"
#include "cases/sequences.hpp"

namespace tessera::cases {

std::string append_words(const Case& c);
// rope= and what follows it. Empty, or what is wrong.
std::string read_rope(std::string_view word, std::string_view value, Case* c);
// Empty, or what the words do not agree on.
std::string check_append(const Case& c);

// Lays values into keys as the case asks, and lays out new rows, the tables of rope and positions.
void add_append_tensors(const Case& c, std::uint64_t seed, tessera_attention* problem);

// The angles that models have, 10000^(-j / pairs) for each position; NaN in the rows of the tables that no
// row asks for. Positions as a draft tree has them: a row stands at most as deep as there are rows before it.
void fill_rope(const Case& c, std::uint64_t seed, const tessera_attention& problem);

// Takes the rows that are new out of key and value, in which they were drawn like all others, and leaves NaN.
// So every kind of input means for new rows what it means for old ones.
void lift_new_rows(const Case& c, const tessera_attention& problem);

// Key, value and key_tail where rows are stored in them: what they hold before a call, and what after it.
class Caches {
 public:
  void add(Buffer buffer) { buffers_.push_back(std::move(buffer)); }
  // What they hold now is what a call finds; the oracle says what it leaves.
  void remember(const tessera_attention& problem);
  void restore();
  // Empty, or what is not as the oracle has it, or where it should have been left alone: bit for bit, but
  // that a NaN which is stored may be any.
  [[nodiscard]] std::string mistake(const tessera_attention& problem) const;

  [[nodiscard]] const std::vector<Buffer>& buffers() const { return buffers_; }
  // All bytes of each, guard bands included, as restore() leaves them.
  [[nodiscard]] const std::vector<std::vector<unsigned char>>& before() const { return before_; }

 private:
  using Bytes = std::vector<std::vector<unsigned char>>;
  void store(const tessera_attention& problem, Bytes* to) const;

  std::vector<Buffer> buffers_;
  Bytes before_, after_;
};

}  // namespace tessera::cases
