// Text that cannot be read or run: a sentence with file and line.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace emulator {

class PtxError : public std::runtime_error {
 public:
  PtxError(std::string_view file, int at, std::string_view sentence)
      : std::runtime_error(std::string(file) + ":" + std::to_string(at) + ": " + std::string(sentence)),
        line(at) {}
  int line;
};

}  // namespace emulator
