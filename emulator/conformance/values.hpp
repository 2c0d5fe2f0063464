// Operands: special values of every type, numbers of ordinary size, random bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "emulator/exec/random.hpp"

namespace emulator::conformance {

// The last three: what is rounded to 8-bit floats, or 8-bit floats themselves.
enum class Kind { integer, f16, bf16, f16_pair, bf16_pair, f32, f64, f32_to_8, f16_pair_to_8, bits };
Kind kind_of(std::string_view form);  // what most of its operands are

std::uint64_t operand(Random& random, Kind kind, char letter);  // letter: p, h, w, q as in lane tables

// 16-bit floats of a matrix. Flavours: 0, 1 ordinary; 2 exponents far apart; 3 tiny; 4 ordinary with a few
// infinities and NaNs; 5 all bits random; 6 mostly zeros of both
// signs.
std::uint16_t element(Random& random, bool bfloat, unsigned flavour);
std::uint32_t accumulator(Random& random, unsigned flavour);  // f32

}  // namespace emulator::conformance
