// The instruction sets compiled into this library. Each is a file of its own, target_*.cpp, that compiles the
// same kernels (attend-inl.hpp) through Highway; the choice at run time is ours, not Highway's: only its
// headers are needed that way, and every target can be asked for by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cpu/schedule.hpp"

namespace tessera::cpu {

struct Target {
  std::string_view name;
  std::string_view summary;
  Blocking blocking;
  std::string (*missing)();  // empty if this machine has the instructions, else which it lacks
  std::size_t (*scratch_bytes)(const core::Problem& problem, const Schedule& schedule);
  void (*attend_item)(const Call& call, std::int64_t index, std::byte* scratch);
};

// Which of these are there, targets.cpp knows.
Target avx512_target();
Target avx2_target();
Target neon_target();
Target scalar_target();

bool has_avx2();

inline constexpr int kMaxTargets = 3;
std::span<const Target> targets();  // best first

}  // namespace tessera::cpu
