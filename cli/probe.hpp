// The innermost loops that find out how fast this CPU multiplies and reads: one pair per instruction set,
// chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera::cli {

struct Probe {
  std::string_view name;  // "AVX2 + FMA"
  // Runs `rounds` rounds of independent multiply-adds and returns the floating point operations done.
  double (*multiply_add)(std::int64_t rounds);
  // Reads `bytes` (a multiple of 4 KiB) as `streams` parts side by side; returns a mix of what it read.
  std::uint64_t (*read)(const unsigned char* data, std::size_t bytes, int streams);
};

// The widest this machine has.
const Probe& probe();

}  // namespace tessera::cli
