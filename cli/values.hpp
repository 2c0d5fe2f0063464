// Values on the command line, taken strictly. CLI11 alone lets nan through every range, wraps -1 to 2^64 -
// 1, cuts what is too large and reads 010 as eight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class Option;
}

namespace tessera::cli {

// Digits only, from `least` to `most`. Returns the option, to go on with.
CLI::Option* whole_number(CLI::Option* option, std::uint64_t least, std::uint64_t most);

// A decimal number from `least` to `most`, both finite.
CLI::Option* real_number(CLI::Option* option, double least, double most);

// Of the CPU; 0 means all cores.
CLI::Option* thread_count(CLI::Option* option);

// One of these words.
CLI::Option* one_of(CLI::Option* option, const std::vector<std::string>& words);

// Not empty: an unset shell variable would else be taken for a wish not to have the option.
CLI::Option* file_name(CLI::Option* option);

}  // namespace tessera::cli
