// A GPU through CUDA's driver, which is looked for when the program runs: building needs no CUDA.
#pragma once

#include "emulator/conformance/case.hpp"

namespace emulator::conformance {

class Gpu {
 public:
  Gpu();  // throws std::runtime_error where there is none
  std::string name() const { return name_; }
  // The case's output. Throws what the driver says.
  std::vector<std::uint32_t> run(const Case& one);

 private:
  template <class F>
  F* find(const char* name) const;
  void check(int status, const char* what) const;
  void* library_ = nullptr;
  std::string name_;
};

}  // namespace emulator::conformance
