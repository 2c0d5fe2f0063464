// Any bytes as PTX: a module that can be run, or a sentence about what is wrong, never a crash.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emulator/exec/program.hpp"
#include "emulator/ptx/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  try {
    const auto module = emulator::parse_module(text, "fuzz.ptx");
    for (const emulator::Entry& entry : module->entries) {
      try {
        emulator::decode(*module, entry, {});
      } catch (const emulator::PtxError&) {
      }
    }
  } catch (const emulator::PtxError&) {
  }
  return 0;
}
