// The instruction sets compiled into this library, best first.
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

inline constexpr int kMaxTargets = 3;
std::span<const Target> targets();

}  // namespace tessera::cpu
