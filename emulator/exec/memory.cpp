// Loads and stores: every address is checked for bounds, alignment and, where it is read, for having been
// written.
#include <cstring>

#include "emulator/exec/handlers.hpp"
#include "emulator/exec/rows.hpp"

namespace emulator {
namespace {

std::string bytes_of(unsigned n) { return n == 1 ? "1 byte" : std::to_string(n) + " bytes"; }

template <unsigned kBytes>
bool few_written(const std::uint8_t* states) {
  for (unsigned i = 0; i < kBytes; ++i)
    if (states[i] != 1) return false;
  return true;
}
template <>
bool few_written<4>(const std::uint8_t* states) {
  std::uint32_t x;
  std::memcpy(&x, states, 4);
  return x == 0x01010101u;
}
template <>
bool few_written<8>(const std::uint8_t* states) {
  std::uint64_t x;
  std::memcpy(&x, states, 8);
  return x == 0x0101010101010101u;
}
bool written(const std::uint8_t* states, unsigned bytes) {
  switch (bytes) {
    case 1:
      return states[0] == 1;
    case 2:
      return few_written<2>(states);
    case 4:
      return few_written<4>(states);
    case 8:
      return few_written<8>(states);
    default:
      return few_written<8>(states) && few_written<8>(states + 8);
  }
}

// The worst of the states, in words.
std::string why_not_readable(const std::uint8_t* states, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) {
    const auto state = static_cast<ByteState>(states[i]);
    if (state == ByteState::barrier)
      return "mbarrier misuse: a plain load of " + bytes_of(bytes) + " from an mbarrier";
    if (state == ByteState::in_flight)
      return "read too early: a copy that is still in flight will write the " + bytes_of(bytes) +
             " that are loaded";
  }
  return "uninitialised shared memory: a load of " + bytes_of(bytes) + " that nothing was written to";
}

void keep_element(Warp& w, std::int32_t to, unsigned lane, const AccessForm& form, const std::uint8_t* from) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, form.bytes);
  if (form.is_signed && form.bytes < 8) {
    const unsigned shift = 64 - 8 * form.bytes;
    value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
  }
  if (form.wide) {
    w.at<std::uint64_t>(to)[lane] = value;
  } else {
    w.at<std::uint32_t>(to)[lane] = static_cast<std::uint32_t>(value);
  }
}
void give_element(const Warp& w, std::int32_t from, unsigned lane, const AccessForm& form, std::uint8_t* to) {
  if (form.wide) {
    std::memcpy(to, w.at<std::uint64_t>(from) + lane, form.bytes);
  } else {
    std::memcpy(to, w.at<std::uint32_t>(from) + lane, form.bytes);
  }
}

// The usual case, words into words: no questions per element.
template <class Pointer>
void load_lanes(Warp& w, const Op& op, const AccessForm& form, Pointer&& pointer) {
  const std::int32_t* to = &w.program->lists[op.x];
  if (form.bytes == 4 && !form.wide) {
    std::uint32_t* rows[4];
    for (unsigned v = 0; v < form.vector; ++v) rows[v] = w.at<std::uint32_t>(to[v]);
    for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
      const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
      const std::uint8_t* from = pointer(lane);
      for (unsigned v = 0; v < form.vector; ++v) std::memcpy(rows[v] + lane, from + 4 * v, 4);
    }
    return;
  }
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
    const std::uint8_t* from = pointer(lane);
    for (unsigned v = 0; v < form.vector; ++v) keep_element(w, to[v], lane, form, from + v * form.bytes);
  }
}
template <class Pointer>
void store_lanes(Warp& w, const Op& op, const AccessForm& form, Pointer&& pointer) {
  const std::int32_t* from = &w.program->lists[op.x];
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
    std::uint8_t* to = pointer(lane);
    for (unsigned v = 0; v < form.vector; ++v) give_element(w, from[v], lane, form, to + v * form.bytes);
  }
}

}  // namespace

void find_addresses(const Warp& w, std::int32_t base, std::int64_t offset, std::uint32_t y,
                    std::uint64_t* out) {
  const auto add = static_cast<std::uint64_t>(offset);
  if ((y & kNoBase) != 0) {
    for (unsigned i = 0; i < kLanes; ++i) out[i] = add;
  } else if ((y & kNarrowAddress) != 0) {
    const std::uint32_t* a = w.at<std::uint32_t>(base);
    for (unsigned i = 0; i < kLanes; ++i) out[i] = a[i] + static_cast<std::uint32_t>(add);
    for (unsigned i = 0; i < kLanes; ++i) out[i] &= 0xffffffffu;
  } else {
    const std::uint64_t* a = w.at<std::uint64_t>(base);
    for (unsigned i = 0; i < kLanes; ++i) out[i] = a[i] + add;
  }
}

void check_shared(const Warp& w, std::uint32_t lanes, const std::uint64_t* addresses, unsigned bytes,
                  const char* what) {
  const std::uint64_t end = w.block->shared.end;
  std::uint32_t outside = 0, askew = 0;
  for (unsigned i = 0; i < kLanes; ++i) {
    const std::uint64_t a = addresses[i];
    outside |= static_cast<std::uint32_t>(a < kSharedBase || a + bytes > end) << i;
    askew |= static_cast<std::uint32_t>((a & (bytes - 1)) != 0) << i;
  }
  outside &= lanes;
  askew &= lanes;
  if ((outside | askew) == 0) [[likely]]
    return;
  const std::uint32_t bad = outside != 0 ? outside : askew;
  const std::uint64_t at = addresses[__builtin_ctz(bad)];
  const std::string access =
      std::string(what) + " of " + bytes_of(bytes) + " at shared address " + std::to_string(at);
  if (outside == 0) fault(bad, at, "misaligned: " + access);
  fault(bad, at,
        "out of bounds: " + access + "; the block's shared memory is " + std::to_string(kSharedBase) +
            " to " + std::to_string(end));
}

const MemoryRange& check_global(Warp& w, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes,
                                const char* what) {
  Block& block = *w.block;
  const MemorySnapshot& memory = *block.grid->memory;
  std::uint32_t& last = block.ranges[static_cast<std::size_t>(&op - w.program->code.data())];
  if (!memory.holds(static_cast<int>(last), address, bytes)) {
    const int found = memory.find(address);
    if (!memory.holds(found, address, bytes))
      fault(
          1u << lane, address,
          "out of bounds: " + std::string(what) + " of " + bytes_of(bytes) + ", " + memory.describe(address));
    last = static_cast<std::uint32_t>(found);
  }
  if ((address & (bytes - 1)) != 0)
    fault(1u << lane, address,
          "misaligned: " + std::string(what) + " of " + bytes_of(bytes) + " in global memory");
  return memory.ranges[last];
}

namespace {

// The allocation that holds all that a warp accesses in a pattern, or null: then lanes are looked at one by
// one.
const MemoryRange* whole_range(Warp& w, const Op& op, const std::uint64_t* at, std::uint64_t bytes,
                               unsigned align) {
  Block& block = *w.block;
  const MemorySnapshot& memory = *block.grid->memory;
  std::uint32_t& last = block.ranges[static_cast<std::size_t>(&op - w.program->code.data())];
  if (!memory.holds(static_cast<int>(last), at[0], bytes)) {
    const int found = memory.find(at[0]);
    if (!memory.holds(found, at[0], bytes)) return nullptr;
    last = static_cast<std::uint32_t>(found);
  }
  return (at[0] & (align - 1)) == 0 ? &memory.ranges[last] : nullptr;
}

// Where a whole warp's shared access lies, or null.
bool whole_shared(const Warp& w, const std::uint64_t* at, std::uint64_t bytes, unsigned align) {
  return at[0] >= kSharedBase && at[0] + bytes <= w.block->shared.end && (at[0] & (align - 1)) == 0;
}

}  // namespace

namespace handlers {

void load_global(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  const unsigned bytes = form.bytes * form.vector;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const Pattern pattern = pattern_of(w, at, bytes);
  if (pattern != Pattern::scattered) {
    const std::uint64_t all = pattern == Pattern::uniform ? bytes : std::uint64_t{bytes} * kLanes;
    const MemoryRange* range = whole_range(w, op, at, all, bytes);
    if (range != nullptr && all_written(range->states + (at[0] - range->first), all))
      return load_rows(w, op, form, reinterpret_cast<const std::uint8_t*>(at[0]), pattern);
  }
  load_lanes(w, op, form, [&](unsigned lane) {
    const MemoryRange& range = check_global(w, op, lane, at[lane], bytes, "a load");
    if (!written(range.states + (at[lane] - range.first), bytes))
      fault(1u << lane, at[lane], "uninitialised global memory: a load of " + bytes_of(bytes));
    return reinterpret_cast<const std::uint8_t*>(at[lane]);
  });
}

void store_global(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  const unsigned bytes = form.bytes * form.vector;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  store_lanes(w, op, form, [&](unsigned lane) {
    const MemoryRange& range = check_global(w, op, lane, at[lane], bytes, "a store");
    std::memset(range.states + (at[lane] - range.first), 1, bytes);
    return reinterpret_cast<std::uint8_t*>(at[lane]);
  });
}

void load_shared(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  const unsigned bytes = form.bytes * form.vector;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  SharedMemory& shared = w.block->shared;
  const Pattern pattern = pattern_of(w, at, bytes);
  if (pattern != Pattern::scattered) {
    const std::uint64_t all = pattern == Pattern::uniform ? bytes : std::uint64_t{bytes} * kLanes;
    const auto first = static_cast<std::uint32_t>(at[0]);
    if (whole_shared(w, at, all, bytes) && all_written(shared.state(first), all))
      return load_rows(w, op, form, shared.at(first), pattern);
  }
  check_shared(w, w.mask, at, bytes, "a load");
  load_lanes(w, op, form, [&](unsigned lane) {
    const auto address = static_cast<std::uint32_t>(at[lane]);
    const std::uint8_t* states = shared.state(address);
    if (!written(states, bytes)) fault(1u << lane, address, why_not_readable(states, bytes));
    return static_cast<const std::uint8_t*>(shared.at(address));
  });
}

void store_shared(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  const unsigned bytes = form.bytes * form.vector;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  SharedMemory& shared = w.block->shared;
  if (bytes == 4 && !form.wide && pattern_of(w, at, bytes) == Pattern::contiguous &&
      whole_shared(w, at, 128, 4)) {
    const auto first = static_cast<std::uint32_t>(at[0]);
    std::uint8_t worst = 0;
    for (unsigned i = 0; i < 128; ++i) worst |= shared.state(first)[i];
    if (worst <= 1) {
      std::memset(shared.state(first), 1, 128);
      std::memcpy(shared.at(first), w.at<std::uint32_t>(w.program->lists[op.x]), 128);
      return;
    }
  }
  check_shared(w, w.mask, at, bytes, "a store");
  store_lanes(w, op, form, [&](unsigned lane) {
    const auto address = static_cast<std::uint32_t>(at[lane]);
    std::uint8_t* states = shared.state(address);
    for (unsigned i = 0; i < bytes; ++i) {
      if (states[i] == static_cast<std::uint8_t>(ByteState::barrier))
        fault(1u << lane, address,
              "mbarrier misuse: a plain store of " + bytes_of(bytes) + " over an mbarrier");
      if (states[i] == static_cast<std::uint8_t>(ByteState::in_flight))
        fault(1u << lane, address, "written too early: a copy that is still in flight will write here, too");
    }
    std::memset(states, 1, bytes);
    return shared.at(address);
  });
}

void load_param(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  const unsigned bytes = form.bytes * form.vector;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const std::vector<std::byte>& params = w.block->grid->launch->params;
  load_lanes(w, op, form, [&](unsigned lane) {
    if (at[lane] + bytes > params.size() || at[lane] + bytes < at[lane])
      fault(1u << lane, at[lane],
            "out of bounds: a load of " + bytes_of(bytes) + " from the parameters, which have " +
                bytes_of(static_cast<unsigned>(params.size())));
    if (at[lane] % bytes != 0)
      fault(1u << lane, at[lane], "misaligned: a load of " + bytes_of(bytes) + " from the parameters");
    return reinterpret_cast<const std::uint8_t*>(params.data()) + at[lane];
  });
}

}  // namespace handlers
}  // namespace emulator
