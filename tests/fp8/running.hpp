// 8-bit attention as a kernel runs it that rounds P to 8 bits, in plain arithmetic: as FlashAttention-3 does
// it on Hopper, and the same with promotion. Nothing of the library computes like the first; the tests and
// docs/fp8.md set it beside what does.
#pragma once

#include <tessera/tessera.h>

#include <span>
#include <vector>

#include "oracle/oracle.hpp"

namespace tessera::fp8 {

// The two differ in nothing but who adds up tiles of keys.
struct Running {
  // One accumulator of the tensor cores takes all keys: FlashAttention-3.
  std::vector<double> unpromoted;
  // Every tile's sum starts at zero and is added to floats.
  std::vector<double> promoted;
};

// Tiles of 128 keys, the last first; Q K and P V as Hopper's tensor cores sum codes; P against the largest
// score so far, times 2^8, rounded to e4m3; the sum of weights before rounding, in float. Dense problems of
// e4m3 without options, whose values have a scale for each head or channel: it is applied at the end. Outputs
// are [rows, value_dim].
Running running(const tessera_attention& problem, std::span<const oracle::Row> rows);

}  // namespace tessera::fp8
