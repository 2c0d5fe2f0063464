// Accesses of a whole warp at once: all lanes at one address, or side by side. They need one check instead
// of 32.
#pragma once

#include <cstring>

#include "emulator/exec/handlers.hpp"

namespace emulator {

enum class Pattern { scattered, uniform, contiguous };

inline Pattern pattern_of(const Warp& w, const std::uint64_t* at, unsigned bytes) {
  if (w.mask != kAllLanes) return Pattern::scattered;
  std::uint64_t apart = 0, askew = 0;
  for (unsigned i = 0; i < kLanes; ++i) apart |= at[i] ^ at[0];
  if (apart == 0) return Pattern::uniform;
  for (unsigned i = 0; i < kLanes; ++i) askew |= at[i] ^ (at[0] + std::uint64_t{i} * bytes);
  return askew == 0 ? Pattern::contiguous : Pattern::scattered;
}

// Whether all of many bytes were written.
inline bool all_written(const std::uint8_t* states, std::size_t bytes) {
  std::uint64_t seen = 0;
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, states + i, 8);
    seen |= eight ^ 0x0101010101010101u;
  }
  for (; i < bytes; ++i) seen |= static_cast<std::uint64_t>(states[i] ^ 1u);
  return seen == 0;
}

template <class To, class From>
void widen(To* to, const std::uint8_t* from, unsigned step) {
  for (unsigned i = 0; i < kLanes; ++i) {
    From x;
    std::memcpy(&x, from + std::size_t{i} * step, sizeof x);
    to[i] = static_cast<To>(x);
  }
}

// One element of every lane, `step` bytes apart (0: all the same), into a row of registers.
inline void load_row(Warp& w, std::int32_t to, const AccessForm& form, const std::uint8_t* from,
                     unsigned step) {
  const unsigned kind = form.bytes | (form.is_signed ? 16u : 0u) | (form.wide ? 32u : 0u);
  auto* const narrow = w.at<std::uint32_t>(to);
  auto* const wide = w.at<std::uint64_t>(to);
  switch (kind) {
    case 1:
      return widen<std::uint32_t, std::uint8_t>(narrow, from, step);
    case 2:
      return widen<std::uint32_t, std::uint16_t>(narrow, from, step);
    case 4:
    case 4 | 16:
      return widen<std::uint32_t, std::uint32_t>(narrow, from, step);
    case 1 | 16:
      return widen<std::uint32_t, std::int8_t>(narrow, from, step);
    case 2 | 16:
      return widen<std::uint32_t, std::int16_t>(narrow, from, step);
    case 1 | 32:
      return widen<std::uint64_t, std::uint8_t>(wide, from, step);
    case 2 | 32:
      return widen<std::uint64_t, std::uint16_t>(wide, from, step);
    case 4 | 32:
      return widen<std::uint64_t, std::uint32_t>(wide, from, step);
    case 1 | 16 | 32:
      return widen<std::uint64_t, std::int8_t>(wide, from, step);
    case 2 | 16 | 32:
      return widen<std::uint64_t, std::int16_t>(wide, from, step);
    case 4 | 16 | 32:
      return widen<std::uint64_t, std::int32_t>(wide, from, step);
    default:
      return widen<std::uint64_t, std::uint64_t>(wide, from, step);
  }
}

inline void load_rows(Warp& w, const Op& op, const AccessForm& form, const std::uint8_t* from,
                      Pattern pattern) {
  const std::int32_t* to = &w.program->lists[op.x];
  const unsigned step = pattern == Pattern::uniform ? 0 : form.bytes * form.vector;
  for (unsigned v = 0; v < form.vector; ++v) load_row(w, to[v], form, from + v * form.bytes, step);
}

}  // namespace emulator
