// Arithmetic forms: what each takes and gives, and the function that does it for 32 lanes. They are compiled
// twice, for any x86-64 (or other) processor and for those with AVX2 and FMA; tables are chosen when the
// program starts.
#pragma once

#include <span>
#include <string_view>

#include "emulator/exec/program.hpp"

namespace emulator {

// signature: result, '=', operands. h 16 bits, w 32 bits, q 64 bits, p predicate. 16 bits are kept in 32.
struct Form {
  std::string_view name;
  std::string_view signature;
  Handler run;
};

// A product of 16 x 16 by 16 x columns elements on one warp's accumulators, as the tensor cores round it.
// a: [16][16] rows, b: [columns][16], both as 16-bit patterns; d: floats, added to, in tiles of 8 columns:
// [columns / 8][16][8].
using MultiplyTile = void (*)(const std::uint16_t* a, const std::uint16_t* b, float* d, int columns,
                              bool is_bfloat, const TensorCore& numbers);

// The same of 8-bit floats, 32 deep: a [16][32], b [columns][32]. e5m2 or e4m3, each of the two.
struct Kinds8 {
  bool a_is_e5m2 = false, b_is_e5m2 = false;
};
using MultiplyTile8 = void (*)(const std::uint8_t* a, const std::uint8_t* b, float* d, int columns,
                               Kinds8 kinds, const TensorCore& numbers);

struct LaneTable {
  std::span<const std::span<const Form>> forms;
  MultiplyTile multiply;
  MultiplyTile8 multiply_8;          // in the tensor cores' own circuit for them
  MultiplyTile8 multiply_8_widened;  // mma.sync of sm_90, which has none
};
const LaneTable& plain_lanes();
const LaneTable& avx2_lanes();  // only where the processor has it
const LaneTable& best_lanes();
const Form* find_form(std::string_view name);

}  // namespace emulator
