// GPUs as data, and which of them this process pretends to have.
#pragma once

#include <string>
#include <string_view>

#include "emulator/exec/launch.hpp"

namespace emulator::runtime {

// What the executor needs of a GPU, and what programs ask about beyond it.
struct Gpu {
  std::string_view key;  // as the environment names it
  DeviceDescription description;
  int registers_per_multiprocessor;
  int threads_per_multiprocessor;
  int blocks_per_multiprocessor;
  std::size_t l2_window_bytes;  // the largest access policy window
  int clock_khz;
  int memory_clock_khz;
  int memory_bus_bits;
};

// What the environment asks for:
//   TESSERA_EMU_DEVICE=h200|l4|a100   which GPU (h200)
//   TESSERA_EMU_SMS=n                 with so many SMs
//   TESSERA_EMU_SEED=n                order of warps and streams, and when asynchronous work completes (1)
//   TESSERA_EMU_THREADS=n             host threads (0: all)
//   TESSERA_EMU_PTX=file              the index of the PTX (the build's own)
//   TESSERA_EMU_COVERAGE=file         entry points that ran are appended to it
//   TESSERA_EMU_SPEED=file            and here, of every launch, its instructions and seconds
struct Environment {
  Gpu gpu;
  Settings settings;
  std::string ptx_index;
  std::string coverage;
};

// False, and a sentence in *why, if a variable has a value that it cannot have.
bool read_environment(Environment* out, std::string* why);

}  // namespace emulator::runtime
