// Generic and local accesses, lane by lane, and atomics: rare.
#include <atomic>
#include <cstring>
#include <mutex>

#include "emulator/exec/handlers.hpp"

namespace emulator {
namespace {

// Where an address leads, and the states of its bytes (null: always written).
struct Resolved {
  std::uint8_t* bytes;
  std::uint8_t* states;
};

Resolved resolve(Warp& w, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes, bool is_store) {
  const char* what = is_store ? "a store" : "a load";
  Block& block = *w.block;
  const std::uint64_t window = address & kWindowMask;
  const std::uint64_t offset = address & ~kWindowMask;
  const auto outside = [&](const char* where) {
    fault(1u << lane, address,
          "out of bounds: " + std::string(what) + " of " + std::to_string(bytes) + " bytes in " + where +
              " memory");
  };
  if (window == 0) {
    const MemoryRange& range = check_global(w, op, lane, address, bytes, what);
    return {reinterpret_cast<std::uint8_t*>(address), range.states + (address - range.first)};
  }
  if (offset % bytes != 0)
    fault(1u << lane, address,
          "misaligned: " + std::string(what) + " of " + std::to_string(bytes) + " bytes");
  if (window == kSharedWindow) {
    if (offset < kSharedBase || offset + bytes > block.shared.end) outside("shared");
    const auto at = static_cast<std::uint32_t>(offset);
    return {block.shared.at(at), block.shared.state(at)};
  }
  if (window == kLocalWindow) {
    const std::size_t size = w.program->local_bytes;
    if (offset + bytes > size) outside("local");
    const std::size_t at = (w.index * kLanes + lane) * w.program->local_stride() + offset;
    return {block.local.data() + at, block.local_states.data() + at};
  }
  if (window == kParamWindow && !is_store) {
    const auto& params = block.grid->launch->params;
    if (offset + bytes > params.size()) outside("parameter");
    return {reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(params.data())) + offset, nullptr};
  }
  fault(1u << lane, address, "out of bounds: " + std::string(what) + " through an address of no space");
}

std::uint64_t apply(unsigned kind, std::uint64_t before, std::uint64_t x, std::uint64_t y, unsigned bytes) {
  const bool wide = bytes == 8;
  const auto s = [&](std::uint64_t v) {
    return wide ? static_cast<std::int64_t>(v) : static_cast<std::int64_t>(static_cast<std::int32_t>(v));
  };
  switch (static_cast<AtomicKind>(kind)) {
    case AtomicKind::add:
      return before + x;
    case AtomicKind::bit_and:
      return before & x;
    case AtomicKind::bit_or:
      return before | x;
    case AtomicKind::bit_xor:
      return before ^ x;
    case AtomicKind::exchange:
      return x;
    case AtomicKind::compare:
      return before == x ? y : before;
    case AtomicKind::min_signed:
      return s(x) < s(before) ? x : before;
    case AtomicKind::max_signed:
      return s(x) > s(before) ? x : before;
    case AtomicKind::min_unsigned:
      return x < before ? x : before;
    case AtomicKind::max_unsigned:
      return x > before ? x : before;
    case AtomicKind::add_float: {
      float a, b;
      const auto low = static_cast<std::uint32_t>(before), more = static_cast<std::uint32_t>(x);
      std::memcpy(&a, &low, 4);
      std::memcpy(&b, &more, 4);
      a += b;
      std::uint32_t out;
      std::memcpy(&out, &a, 4);
      return out;
    }
  }
  return 0;
}

template <class T>
std::uint64_t exchange(std::uint8_t* at, unsigned kind, std::uint64_t x, std::uint64_t y) {
  std::atomic_ref<T> cell(*reinterpret_cast<T*>(at));
  T before = cell.load();
  while (!cell.compare_exchange_weak(before, static_cast<T>(apply(kind, before, x, y, sizeof(T))))) {
  }
  return before;
}

}  // namespace

namespace handlers {

// c: the window of the space that addresses are in
void load_any(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  const unsigned bytes = form.bytes * form.vector;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const std::int32_t* to = &w.program->lists[op.x];
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    const std::uint64_t address = at[lane] | static_cast<std::uint64_t>(op.c) << 56;
    const Resolved found = resolve(w, op, lane, address, bytes, false);
    for (unsigned i = 0; found.states != nullptr && i < bytes; ++i)
      if (found.states[i] != 1)
        fault(1u << lane, address, "uninitialised memory: a load of " + std::to_string(bytes) + " bytes");
    for (unsigned v = 0; v < form.vector; ++v) {
      std::uint64_t value = 0;
      std::memcpy(&value, found.bytes + v * form.bytes, form.bytes);
      const unsigned shift = 64 - 8 * form.bytes;
      if (form.is_signed && shift != 0)
        value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
      if (form.wide) {
        w.at<std::uint64_t>(to[v])[lane] = value;
      } else {
        w.at<std::uint32_t>(to[v])[lane] = static_cast<std::uint32_t>(value);
      }
    }
  }
}

void store_any(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  const unsigned bytes = form.bytes * form.vector;
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const std::int32_t* from = &w.program->lists[op.x];
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    const std::uint64_t address = at[lane] | static_cast<std::uint64_t>(op.c) << 56;
    const Resolved found = resolve(w, op, lane, address, bytes, true);
    if (found.states[0] > 1)
      fault(1u << lane, address, "a store over an mbarrier or over what a copy in flight will write");
    std::memset(found.states, 1, bytes);
    for (unsigned v = 0; v < form.vector; ++v) {
      const void* value = form.wide ? static_cast<const void*>(w.at<std::uint64_t>(from[v]) + lane)
                                    : static_cast<const void*>(w.at<std::uint32_t>(from[v]) + lane);
      std::memcpy(found.bytes + v * form.bytes, value, form.bytes);
    }
  }
}

// Counters of 64 bits may begin in global memory that nothing has written (src/cuda/serving/merge.hpp): it
// holds anything then.
void hold_anything(const Resolved& found, std::uint64_t address) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::uint64_t bytes = (address + 1) * 0x9e3779b97f4a7c15u;
  for (unsigned i = 0; i < sizeof bytes; ++i) {
    if (found.states[i] != 0) continue;
    found.bytes[i] = static_cast<std::uint8_t>(bytes >> 8 * i);
    found.states[i] = 1;
  }
}

// d: result (-1: none); b, x: operands; c: kind, with the space's window above bit 8; y: size and width of
// the address
void atomic(Warp& w, const Op& op) {
  const AccessForm form = AccessForm::unpack(op.y);
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const bool wide = form.bytes == 8;
  const auto operand = [&](std::int32_t from, unsigned lane) {
    return wide ? w.at<std::uint64_t>(from)[lane] : w.at<std::uint32_t>(from)[lane];
  };
  const bool has_result = (op.y & kHasResult) != 0;
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    const std::uint64_t address = at[lane] | static_cast<std::uint64_t>(op.c >> 8) << 56;
    const Resolved found = resolve(w, op, lane, address, form.bytes, true);
    if (wide && op.c >> 8 == 0) hold_anything(found, address);
    for (unsigned i = 0; i < form.bytes; ++i)
      if (found.states[i] != 1)
        fault(1u << lane, address,
              "uninitialised memory: an atomic operation on " + std::to_string(form.bytes) + " bytes");
    const std::uint64_t x = operand(op.b, lane), y = operand(static_cast<std::int32_t>(op.x), lane);
    const auto kind = static_cast<unsigned>(op.c & 0xff);
    const std::uint64_t before = wide ? exchange<std::uint64_t>(found.bytes, kind, x, y)
                                      : exchange<std::uint32_t>(found.bytes, kind, x, y);
    if (!has_result) continue;
    if (wide) {
      w.at<std::uint64_t>(op.d)[lane] = before;
    } else {
      w.at<std::uint32_t>(op.d)[lane] = static_cast<std::uint32_t>(before);
    }
  }
}

}  // namespace handlers
}  // namespace emulator
