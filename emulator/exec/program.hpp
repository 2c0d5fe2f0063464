// An entry decoded once into operations that a warp steps through.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace emulator {

inline constexpr unsigned kLanes = 32;
inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

struct Warp;
struct Op;
using Handler = void (*)(Warp&, const Op&);

// Operands are byte offsets into a warp's registers, where each has 32 lanes of 4 or 8 bytes side by side,
// or, with the top bit set, into the program's constants, laid out alike. Predicates are numbers of lane
// masks, doubled, plus one where negated.
struct Op {
  Handler run = nullptr;
  std::int32_t d = 0, a = 0, b = 0, c = 0;
  std::uint32_t x = 0, y = 0;  // what the handler makes of them: a place in Program::lists, a size, flags
  std::int64_t value = 0;      // an offset, a target
  std::uint32_t instruction = 0;
  std::uint32_t counts = 1;  // 0: not an instruction of the program, but something beside it
};

inline constexpr std::int32_t kConstant = INT32_MIN;  // or'ed to an offset into the constants

struct Place {
  int line = 0, source_file = 0, source_line = 0;
  std::string_view form;
};

// Shared addresses start here, so that 0 is nobody's; the hardware keeps the first KiB for itself, too.
inline constexpr std::uint32_t kSharedBase = 1024;
// Generic addresses of shared, local and parameter memory. Those of global memory are the host's, far below.
inline constexpr std::uint64_t kSharedWindow = std::uint64_t{1} << 56;
inline constexpr std::uint64_t kLocalWindow = std::uint64_t{2} << 56;
inline constexpr std::uint64_t kParamWindow = std::uint64_t{3} << 56;
inline constexpr std::uint64_t kWindowMask = std::uint64_t{0xff} << 56;

// Numbers of the tensor cores: how many products are summed at a time, and the fraction bits that are kept.
struct TensorCore {
  int chunk = 16, fraction = 25;
  // Results that are rounded further, to f16: what is cut off leaves its trace in the last bit.
  bool keeps_trace = false;
  int kept = 23;  // fraction bits of a result
  // Products of 8-bit floats that are summed at a time; 0: the GPU has no instructions for them.
  int chunk_8 = 32;
  // mma.sync has no circuit for 8-bit floats: ptxas widens them to f16.
  bool widens_8 = true;

  // How 8-bit operands are multiplied where there is a circuit for them.
  TensorCore of_8_bits() const { return {chunk_8, 13, false, 13, chunk_8, widens_8}; }
};

struct alignas(128) ConstantRow {
  std::uint8_t bytes[128];
};

struct Program {
  std::string name;
  const Module* module = nullptr;
  std::vector<Op> code;
  std::vector<std::int32_t> lists;
  std::vector<ConstantRow> constants;
  std::vector<Place> places;       // by instruction
  std::size_t register_bytes = 0;  // of a warp
  std::size_t predicates = 2;      // 0: no lane, 1: all lanes
  std::size_t tracked = 0;         // registers that some path reads before it writes them
  std::uint32_t static_shared_end = kSharedBase;
  std::uint32_t dynamic_shared_start = kSharedBase;
  std::size_t param_bytes = 0;
  std::size_t local_bytes = 0;  // of a thread
  std::size_t local_stride() const { return (local_bytes + 15) / 16 * 16; }
  bool lets_dependents_start = false;  // griddepcontrol.launch_dependents is somewhere in it
  TensorCore tensor_core;
};

// Throws PtxError for whatever is not known.
std::unique_ptr<Program> decode(const Module& module, const Entry& entry, const TensorCore& tensor_core);

}  // namespace emulator
