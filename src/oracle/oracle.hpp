// The judges. attend() is the truth: float64, plain loops, every option, sharing no code with any
// backend (it reads the public struct and nothing else of ours). plain() is the yardstick: the same
// loops with the storage and arithmetic precisions of a kernel, so that its distance from the truth
// is what those precisions cost; a kernel is held to a small multiple of it.
#pragma once

#include <tessera/tessera.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::oracle {

// Contiguous results, in the shape of the problem's output and lse.
struct Result {
  std::vector<double> output;
  std::vector<double> lse;
  // From attend() alone: how far output and lse move, to first order, per unit of relative rounding in
  // the terms they are summed from. Times the unit roundoff of an arithmetic it says what any single
  // rounding there may cost; docs/correctness.md derives it.
  std::vector<double> output_sensitivity;
  std::vector<double> lse_sensitivity;
};

// The problem must have passed validation; problem.output and problem.lse are not touched. Of one with new
// rows or rope, what is left behind those is asked for (append.hpp).
Result attend(const tessera_attention& problem);

// Which arithmetic a yardstick has. All but the first are for 8-bit inputs, as tensor cores compute with
// those (plain_fp8.hpp); others are computed in f32 whatever is asked.
enum class Arithmetic {
  f32,           // every number is a float
  fp8_accurate,  // Q K of codes in short accumulators, P rounded to f16
  fp8_ada,       // the same with Ada's, 32 products from zero each
  fp8_fast,      // as fp8_accurate, P rounded to e4m3, and P V in short accumulators as well
};

// A plain two-pass softmax. The output is rounded to problem.output.dtype.
Result plain(const tessera_attention& problem, Arithmetic arithmetic = Arithmetic::f32);

// The same for chosen rows only: results are [rows, value_dim] and [rows]. Fastest where rows of one
// batch entry and head stand together. With query_offsets, `query` counts from the entry's first row; a row
// of no entry has batch kNoEntry and counts from the tensor's first.
struct Row {
  std::int64_t batch = 0, head = 0, query = 0;
};
inline constexpr std::int64_t kNoEntry = -1;
Result attend(const tessera_attention& problem, std::span<const Row> rows);
Result plain(const tessera_attention& problem, std::span<const Row> rows,
             Arithmetic arithmetic = Arithmetic::f32);
std::vector<Row> every_row(const tessera_attention& problem);  // in the order of the output's rows
// Where a row begins in a tensor laid out as the problem's query is, output and lse among them.
std::int64_t row_offset(const tessera_attention& problem, const tessera_tensor& t, const Row& row);

// One element of a floating tensor, or of i8, as float64; the rounding of a float64 to a dtype and back.
double load(const void* data, tessera_dtype dtype, std::int64_t index);
void store(void* data, tessera_dtype dtype, std::int64_t index, double value);
double round_to(tessera_dtype dtype, double value);
// The gap between value rounded to a floating dtype and its neighbour away from zero.
double rounding_step(tessera_dtype dtype, double value);

}  // namespace tessera::oracle
