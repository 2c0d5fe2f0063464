// Matrices of 8-bit floats that show how products are summed.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/exec/lanes/table.hpp"
#include "emulator/exec/random.hpp"

namespace emulator::conformance {

inline constexpr unsigned kFlavours8 = 11;

// a: [rows][32], b: [columns][32], c: [rows][columns] of f32.
struct Tile8 {
  unsigned rows, columns;
  std::vector<std::uint8_t> a, b;
  std::vector<std::uint32_t> c;

  std::uint32_t word_of_a(unsigned row, unsigned k) const { return word(&a[row * 32 + k]); }
  std::uint32_t word_of_b(unsigned column, unsigned k) const { return word(&b[column * 32 + k]); }

 private:
  static std::uint32_t word(const std::uint8_t* four);
};

// Flavours: 0, 1 ordinary, 1 with large accumulators; 2 exponents far apart; 3 tiny; 4 ordinary with a few
// infinities and NaNs; 5 random bits; 6 mostly zeros of both signs; 7 one large product among small ones; 8
// two that cancel, among small ones; 9 accumulators that are far larger or smaller than the products; 10 the
// numbers of A, in every other tile those of B, are subnormal.
Tile8 make_tile(Random& random, Kinds8 kinds, unsigned rows, unsigned columns, unsigned flavour);

}  // namespace emulator::conformance
