// What the runtime has to say to people: a line on stderr, which CUDA's error codes have no room for.
#pragma once

#include <cstdio>
#include <string>

namespace emulator::runtime {

inline void complain(const std::string& sentence) {
  std::fprintf(stderr, "emulator: %s\n", sentence.c_str());
}

}  // namespace emulator::runtime
