// What is kept of a GPU's results, and how the emulator's are compared with it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "emulator/conformance/case.hpp"

namespace emulator::conformance {

struct Record {
  std::uint64_t input_hash = 0;       // of PTX and operands: a case that has changed is recorded again
  std::vector<std::uint8_t> kept;     // bits of the first items, one behind the other
  std::vector<std::uint32_t> hashes;  // of the others
};
using Recording = std::map<std::string, Record>;

std::uint64_t input_hash(const Case& one);
Record shorten(const Case& one, const std::vector<std::uint32_t>& output);

void save(const Recording& recording, const std::string& file);
Recording load(const std::string& file);  // throws std::runtime_error

// Runs a case on the emulator. Throws its report.
std::vector<std::uint32_t> emulate(const Case& one);

// What differs, a line for each of the first few; empty: nothing does.
std::string compare(const Case& one, const Record& record, const std::vector<std::uint32_t>& output);

}  // namespace emulator::conformance
