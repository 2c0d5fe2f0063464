// The instruction sets compiled into this library. Each is a file of its own, target_*.cpp, that compiles the
// same kernels (attend-inl.hpp) through Highway; the choice at run time is ours, not Highway's: only its
// headers are needed that way, and every target can be asked for by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/kernel.hpp"
#include "cpu/schedule.hpp"

namespace tessera::cpu {

struct Target {
  std::string_view name;
  std::string_view summary;
  Blocking blocking;
  std::string (*missing)();  // empty if this machine has the instructions, else which it lacks
  std::size_t (*scratch_bytes)(const core::Problem& problem, const Schedule& schedule);
  void (*attend_item)(const Call& call, std::int64_t index, std::byte* scratch);
  double speed = 1;            // against code for one float at a time
  std::string_view slow = {};  // a sentence, where this CPU has the instructions but does better without them
};

// A target's row of the kernel table (backend.cpp). `target` must outlive it.
core::Kernel kernel_of(const Target& target);

// Which of these are there, targets.cpp knows.
Target avx512_bf16_target();
Target avx512_target();
Target avx2_target();
Target neon_target();
Target scalar_target();

bool has_avx2();

// Whether bf16 goes through pairs-inl.hpp, which rounds the weights to bf16. What that costs averages out
// over keys and stays below the rounding of the output, unless the output is a handful of numbers that all
// happen to be small beside V: so problems with few of them keep the float kernels, which are as fast there.
// An output in f32 would show it.
inline bool takes_pairs(const core::Problem& problem) {
  constexpr std::int64_t kFewRows = 16, kFewDims = 16;
  return problem.kv.dtype == TESSERA_BF16 && problem.kv.tail_dim == 0 &&
         problem.output.dtype == TESSERA_BF16 && problem.group() * problem.queries > kFewRows &&
         problem.value_dim >= kFewDims;
}

std::span<const Target> targets();  // best first

}  // namespace tessera::cpu
