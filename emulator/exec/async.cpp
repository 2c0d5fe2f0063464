// Copies that go on while the program does: cp.async in groups, bulk copies and TMA that mbarriers wait for.
// Their data move when they complete, which is late or at a random time: whoever does not wait finds out.
#include <algorithm>
#include <cstring>

#include "emulator/exec/handlers.hpp"
#include "emulator/exec/rows.hpp"

namespace emulator {
namespace {

void mark(Block& block, std::uint32_t address, std::uint32_t bytes, ByteState state) {
  std::memset(block.shared.state(address), static_cast<int>(state), bytes);
}

void move_lane(Warp& w, AsyncCopy& copy, unsigned lane) {
  std::uint8_t* to = w.block->shared.at(copy.to[lane]);
  std::memset(to, 0, copy.bytes);
  if (copy.read[lane] != 0) std::memcpy(to, reinterpret_cast<const void*>(copy.from[lane]), copy.read[lane]);
  mark(*w.block, copy.to[lane], copy.bytes, ByteState::written);
}

// A destination must not be an mbarrier or the destination of another copy in flight.
void check_destination(Block& block, unsigned lane, std::uint32_t address, std::uint32_t bytes) {
  const std::uint8_t* states = block.shared.state(address);
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (states[i] == static_cast<std::uint8_t>(ByteState::barrier))
      fault(1u << lane, address + i, "mbarrier misuse: a copy over an mbarrier");
    if (states[i] == static_cast<std::uint8_t>(ByteState::in_flight))
      fault(1u << lane, address + i, "written too early: another copy in flight will write here, too");
  }
}

}  // namespace

void finish_copies(Warp& w, std::uint32_t lanes, std::uint32_t pending) {
  for (AsyncCopy& copy : w.copies) {
    for (std::uint32_t rest = copy.lanes & lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
      if (copy.group[lane] + pending >= w.committed[lane]) continue;
      move_lane(w, copy, lane);
      copy.lanes &= ~(1u << lane);
    }
  }
  std::erase_if(w.copies, [](const AsyncCopy& copy) { return copy.lanes == 0; });
}

void finish_some_copy(Warp& w) {
  const std::size_t i = w.block->random.below(static_cast<unsigned>(w.copies.size()));
  AsyncCopy& copy = w.copies[i];
  for (std::uint32_t rest = copy.lanes; rest != 0; rest &= rest - 1)
    move_lane(w, copy, static_cast<unsigned>(__builtin_ctz(rest)));
  w.copies.erase(w.copies.begin() + static_cast<std::ptrdiff_t>(i));
}

namespace {

std::uint32_t swizzled(std::uint32_t address, TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::k128:
      return address ^ (address >> 3 & 0x70u);
    case TensorSwizzle::k64:
      return address ^ (address >> 3 & 0x30u);
    case TensorSwizzle::k32:
      return address ^ (address >> 3 & 0x10u);
    case TensorSwizzle::kNone:
      break;
  }
  return address;
}

void check_source(const Block& block, const BulkCopy& copy, std::uint64_t from, std::uint64_t bytes) {
  const MemorySnapshot& memory = *block.grid->memory;
  const int range = memory.find(from);
  if (!memory.holds(range, from, bytes))
    late_fault(copy.warp, copy.instruction, 1u << copy.lane, from,
               "out of bounds: a copy reads " + std::to_string(bytes) + " bytes, " + memory.describe(from));
  const std::uint8_t* states = memory.ranges[range].states + (from - memory.ranges[range].first);
  if (all_written(states, bytes)) return;
  for (std::uint64_t i = 0; i < bytes; ++i)
    if (states[i] != 1)
      late_fault(copy.warp, copy.instruction, 1u << copy.lane, from + i,
                 "uninitialised global memory: a copy reads it");
}

// One row of the box: elements that lie inside the tensor, zeros around them.
void copy_row(Block& block, const BulkCopy& copy, const std::array<std::int64_t, 5>& at, std::uint32_t to) {
  const TensorMap& map = copy.map;
  bool inside = true;
  std::uint64_t from = map.base;
  for (unsigned dim = 1; dim < map.rank; ++dim) {
    inside &= at[dim] >= 0 && static_cast<std::uint64_t>(at[dim]) < map.extents[dim];
    from += static_cast<std::uint64_t>(at[dim]) * map.strides[dim - 1];
  }
  const std::int64_t first = std::max<std::int64_t>(at[0], 0);
  const std::int64_t end =
      std::min<std::int64_t>(at[0] + map.box[0], static_cast<std::int64_t>(map.extents[0]));
  std::vector<std::uint8_t> row(std::size_t{map.box[0]} * map.element_bytes, 0);
  if (inside && first < end) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(end - first) * map.element_bytes;
    from += static_cast<std::uint64_t>(first) * map.element_bytes;
    check_source(block, copy, from, bytes);
    std::memcpy(row.data() + (first - at[0]) * map.element_bytes, reinterpret_cast<const void*>(from), bytes);
  }
  const auto size = static_cast<std::uint32_t>(row.size());
  for (std::uint32_t i = 0; i < size;) {
    const std::uint32_t piece = std::min(size - i, 16 - (to + i) % 16);
    std::memcpy(block.shared.at(swizzled(to + i, map.swizzle)), row.data() + i, piece);
    i += piece;
  }
}

void move_box(Block& block, const BulkCopy& copy) {
  const TensorMap& map = copy.map;
  std::array<std::uint32_t, 5> box{1, 1, 1, 1, 1};
  std::array<std::int64_t, 5> start{};
  for (unsigned dim = 0; dim < map.rank; ++dim) box[dim] = map.box[dim], start[dim] = copy.at[dim];
  std::uint32_t to = copy.to;
  std::array<std::int64_t, 5> at = start;
  for (std::uint32_t e = 0; e < box[4]; ++e)
    for (std::uint32_t d = 0; d < box[3]; ++d)
      for (std::uint32_t c = 0; c < box[2]; ++c)
        for (std::uint32_t b = 0; b < box[1]; ++b) {
          at = {start[0], start[1] + b, start[2] + c, start[3] + d, start[4] + e};
          copy_row(block, copy, at, to);
          to += box[0] * map.element_bytes;
        }
}

}  // namespace

void finish_bulk(Block& block, std::size_t index) {
  const BulkCopy copy = block.bulk[index];
  block.bulk.erase(block.bulk.begin() + static_cast<std::ptrdiff_t>(index));
  if (copy.is_tensor) {
    move_box(block, copy);
  } else {
    check_source(block, copy, copy.from, copy.bytes);
    std::memcpy(block.shared.at(copy.to), reinterpret_cast<const void*>(copy.from), copy.bytes);
  }
  mark(block, copy.to, copy.bytes, ByteState::written);
  MBarrier* barrier = find_mbarrier(block, copy.barrier);
  if (barrier == nullptr)
    late_fault(copy.warp, copy.instruction, 1u << copy.lane, copy.barrier,
               "mbarrier misuse: the mbarrier of a copy in flight is gone");
  complete_bytes(block, *barrier, copy.bytes);
}

namespace {

// Where a copy is started: its destination, its barrier.
void start_bulk(Warp& w, unsigned lane, BulkCopy copy, std::uint32_t align) {
  Block& block = *w.block;
  copy.warp = w.index;
  copy.lane = lane;
  if (copy.to < kSharedBase || std::uint64_t{copy.to} + copy.bytes > block.shared.end)
    fault(1u << lane, copy.to,
          "out of bounds: a copy of " + std::to_string(copy.bytes) + " bytes to shared address " +
              std::to_string(copy.to) + "; shared memory ends at " + std::to_string(block.shared.end));
  if (copy.to % align != 0)
    fault(1u << lane, copy.to,
          "misaligned: a copy to shared address " + std::to_string(copy.to) + ", not a multiple of " +
              std::to_string(align));
  if (find_mbarrier(block, copy.barrier) == nullptr)
    fault(1u << lane, copy.barrier,
          "mbarrier misuse: a copy that is to report to shared address " + std::to_string(copy.barrier) +
              ", where no mbarrier was initialised");
  check_destination(block, lane, copy.to, copy.bytes);
  mark(block, copy.to, copy.bytes, ByteState::in_flight);
  block.bulk.push_back(copy);
}

TensorMap read_map(Warp& w, unsigned lane, std::uint64_t address) {
  const std::byte* from = nullptr;
  if ((address & kWindowMask) == kParamWindow) {
    const auto& params = w.block->grid->launch->params;
    const std::uint64_t offset = address & ~kWindowMask;
    if (offset + sizeof(TensorMap) <= params.size()) from = params.data() + offset;
  } else {
    const MemorySnapshot& memory = *w.block->grid->memory;
    if (memory.holds(memory.find(address), address, sizeof(TensorMap)))
      from = reinterpret_cast<const std::byte*>(address);
  }
  if (from == nullptr) fault(1u << lane, address, "out of bounds: a tensor map where there is no memory");
  if (address % 64 != 0) fault(1u << lane, address, "misaligned: a tensor map not at a multiple of 64 bytes");
  TensorMap map;
  std::memcpy(&map, from, sizeof map);
  if (map.magic != kTensorMapMagic || map.rank < 1 || map.rank > 5)
    fault(1u << lane, address, "not a tensor map");
  return map;
}

}  // namespace

namespace handlers {

// a, value: to; c: bytes; lists[x]: from, its offset, bytes to read (kNoOperand: all)
void copy_async(Warp& w, const Op& op) {
  AsyncCopy copy;
  copy.lanes = w.mask;
  copy.instruction = op.instruction;
  copy.bytes = static_cast<unsigned>(op.c);
  copy.group = w.committed;
  const std::int32_t* list = &w.program->lists[op.x];
  std::uint64_t to[kLanes];
  find_addresses(w, op.a, op.value, op.y, to);
  find_addresses(w, list[0], list[1], 0, copy.from.data());
  check_shared(w, w.mask, to, copy.bytes, "an asynchronous copy");
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    copy.to[lane] = static_cast<std::uint32_t>(to[lane]);
    copy.read[lane] = list[2] == kNoOperand ? copy.bytes : w.at<std::uint32_t>(list[2])[lane];
    if (copy.read[lane] > copy.bytes)
      fault(1u << lane, copy.from[lane], "cp.async: reads more than it writes");
    if (copy.from[lane] % copy.bytes != 0)
      fault(1u << lane, copy.from[lane],
            "misaligned: cp.async of " + std::to_string(copy.bytes) + " bytes from global memory");
    if (copy.read[lane] != 0) {
      const MemoryRange& range = check_global(w, op, lane, copy.from[lane], 1, "cp.async");
      const std::uint64_t at = copy.from[lane] - range.first;
      if (copy.from[lane] + copy.read[lane] > range.end)
        fault(1u << lane, copy.from[lane],
              "out of bounds: cp.async reads " + std::to_string(copy.read[lane]) +
                  " bytes, past the end of an allocation");
      for (std::uint32_t i = 0; i < copy.read[lane] && !all_written(range.states + at, copy.read[lane]); ++i)
        if (range.states[at + i] != 1)
          fault(1u << lane, copy.from[lane] + i, "uninitialised global memory: cp.async reads it");
    }
    check_destination(*w.block, lane, copy.to[lane], copy.bytes);
    mark(*w.block, copy.to[lane], copy.bytes, ByteState::in_flight);
  }
  w.copies.push_back(copy);
}

void copy_commit(Warp& w, const Op&) {
  for (unsigned i = 0; i < kLanes; ++i) w.committed[i] += w.mask >> i & 1u;
}
// value: groups that may stay in flight; below 0: waits for all, committed or not
void copy_wait(Warp& w, const Op& op) {
  if (op.value < 0) copy_commit(w, op);
  finish_copies(w, w.mask, op.value < 0 ? 0 : static_cast<std::uint32_t>(op.value));
}

// a, value: to; lists[x]: from, offset, bytes, barrier, offset of the barrier
void bulk_copy(Warp& w, const Op& op) {
  const std::int32_t* list = &w.program->lists[op.x];
  std::uint64_t to[kLanes], from[kLanes], barrier[kLanes];
  find_addresses(w, op.a, op.value, op.y, to);
  find_addresses(w, list[0], list[1], 0, from);
  find_addresses(w, list[3], list[4], kNarrowAddress, barrier);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    BulkCopy copy{};
    copy.to = static_cast<std::uint32_t>(to[lane]);
    copy.bytes = w.at<std::uint32_t>(list[2])[lane];
    copy.barrier = static_cast<std::uint32_t>(barrier[lane]);
    copy.instruction = op.instruction;
    copy.from = from[lane];
    if (copy.bytes % 16 != 0 || from[lane] % 16 != 0)
      fault(1u << lane, from[lane],
            "misaligned: a bulk copy of " + std::to_string(copy.bytes) + " bytes from global memory");
    start_bulk(w, lane, copy, 16);
  }
}

// a, value: to; lists[x]: map, its offset, barrier, its offset, rank, coordinates
void tensor_copy(Warp& w, const Op& op) {
  const std::int32_t* list = &w.program->lists[op.x];
  std::uint64_t to[kLanes], map[kLanes], barrier[kLanes];
  find_addresses(w, op.a, op.value, op.y, to);
  find_addresses(w, list[0], list[1], 0, map);
  find_addresses(w, list[2], list[3], kNarrowAddress, barrier);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    BulkCopy copy{};
    copy.is_tensor = true;
    copy.map = read_map(w, lane, map[lane]);
    if (copy.map.rank != list[4])
      fault(1u << lane, map[lane],
            "a copy of " + std::to_string(list[4]) + " dimensions by a tensor map of " +
                std::to_string(copy.map.rank));
    copy.to = static_cast<std::uint32_t>(to[lane]);
    copy.bytes = copy.map.element_bytes;
    for (int i = 0; i < list[4]; ++i) {
      copy.at[static_cast<unsigned>(i)] = w.at<std::int32_t>(list[5 + i])[lane];
      copy.bytes *= copy.map.box[static_cast<unsigned>(i)];
    }
    // An H200 stops with an illegal instruction.
    if (copy.at[0] * static_cast<std::int64_t>(copy.map.element_bytes) % 16 != 0)
      fault(1u << lane, map[lane],
            "misaligned: a copy of a tensor from coordinate " + std::to_string(copy.at[0]) +
                " of its rows, which is not at a multiple of 16 bytes");
    copy.barrier = static_cast<std::uint32_t>(barrier[lane]);
    copy.instruction = op.instruction;
    start_bulk(w, lane, copy, 128);
  }
}

void prefetch_map(Warp& w, const Op& op) {
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    read_map(w, lane, at[lane]);
  }
}

}  // namespace handlers
}  // namespace emulator
