// Which file of PTX has an entry point, and what ptxas made of it. The build writes the index
// (cmake/nvcc-report):
//   module compute_80 /build/x.cu.o.compute_80.ptx
//   entry _Z6kernelPf sm_80:34:0 sm_89:34:0        code, registers, bytes of stack
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace emulator::runtime {

struct Module {
  int arch = 0;            // compute_80: 80
  bool this_arch = false;  // compute_90a: for this arch alone
  std::string file;
};

// What ptxas took for one GPU's code.
struct Code {
  std::string name;  // "sm_90a"
  int registers = 0;
  int stack_bytes = 0;
};

struct Entry {
  const Module* module = nullptr;
  const Code* code = nullptr;  // null: the index does not say
};

class PtxIndex {
 public:
  // False, and a sentence in *why, if the file cannot be read or is not an index.
  bool read(const std::string& file, std::string* why);

  // The PTX that a GPU of this arch runs: of the newest arch that it can, its own first. A null module: none.
  Entry find(std::string_view entry, int gpu_arch) const;
  // Every entry point that a GPU of this arch would run.
  std::vector<std::string> entries(int gpu_arch) const;

 private:
  struct Found {
    const Module* module;
    std::vector<Code> codes;
  };
  bool read_line(const std::string& line, const Module** module);

  std::map<std::string, Module> modules_;  // by file; addresses stay
  std::map<std::string, std::vector<Found>, std::less<>> entries_;
};

}  // namespace emulator::runtime
