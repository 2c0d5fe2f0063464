// The command line.
#pragma once

#include <cstdint>
#include <string>

namespace serving {

struct Options {
  int requests = 24;
  std::uint64_t seed = 1;
  int pages = 32;
  int threads = 0;  // 0: all cores
  bool cuda = false;
  bool help = false;
};

// Fills *options; otherwise false and a sentence.
bool parse(int count, char** words, Options* options, std::string* complaint);

extern const char* const kHelp;

}  // namespace serving
