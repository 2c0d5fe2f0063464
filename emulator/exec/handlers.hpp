// Operations other than arithmetic. What their fields mean stands with each.
#pragma once

#include "emulator/exec/machine.hpp"

namespace emulator {

// x: Program::lists of registers, one for each element of the vector; y: as packed here; a, value: address
struct AccessForm {
  unsigned bytes;   // of an element: 1, 2, 4, 8
  unsigned vector;  // 1, 2, 4
  bool is_signed;   // loads: extend the sign
  bool wide;        // registers of 64 bits
  std::uint32_t packed() const {
    return bytes | vector << 4 | (is_signed ? 1u << 8 : 0u) | (wide ? 1u << 9 : 0u);
  }
  static AccessForm unpack(std::uint32_t y) {
    return {y & 15u, y >> 4 & 15u, (y >> 8 & 1u) != 0, (y >> 9 & 1u) != 0};
  }
};
inline constexpr std::uint32_t kNarrowAddress = 1u << 10;  // in y: the address register has 32 bits
inline constexpr std::uint32_t kNoBase = 1u << 11;         // in y: the address is op.value alone

inline constexpr std::uint32_t kHasResult = 1u << 12;  // in y, of atomics
inline constexpr std::uint32_t kExpects = 1u << 13, kCounts = 1u << 14,
                               kArrives = 1u << 15;           // in y, of mbarriers
inline constexpr std::uint32_t kBlocks = 1u << 16;            // of waits
inline constexpr std::uint32_t kAlwaysWritten = 0xffffffffu;  // in the place of a tracked register
inline constexpr std::int32_t kAllLanesPredicate = 1 << 1;
inline constexpr std::int32_t kNoOperand = INT32_MAX - 1;
// in y, of matrices; columns from bit 8 on
inline constexpr std::uint32_t kFromRegisters = 1, kEightBits = 2, kTransposedB = 4, kBfloat = 8,
                               kTransposedA = 16, kHalfResults = 32, kE5m2A = 64, kE5m2B = 128;

enum class AtomicKind : std::uint8_t {
  add,
  bit_and,
  bit_or,
  bit_xor,
  exchange,
  compare,
  min_signed,
  max_signed,
  min_unsigned,
  max_unsigned,
  add_float
};

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  lanemask_eq,
  dynamic_smem_size
};

// Addresses of an access, for all lanes.
void find_addresses(const Warp& w, std::int32_t base, std::int64_t offset, std::uint32_t y,
                    std::uint64_t* out);
// A shared access of lanes: in bounds, aligned. Throws.
void check_shared(const Warp& w, std::uint32_t lanes, const std::uint64_t* addresses, unsigned bytes,
                  const char* what);
// A global one; returns where the lane's allocation keeps its states.
const MemoryRange& check_global(Warp& w, const Op& op, unsigned lane, std::uint64_t address, unsigned bytes,
                                const char* what);

namespace handlers {

// control.cpp
void jump(Warp&, const Op&);
void branch(Warp&, const Op&);
void join(Warp&, const Op&);
void leave_program(Warp&, const Op&);
void leave_guarded(Warp&, const Op&);
void guard_begin(Warp&, const Op&);
void guard_end(Warp&, const Op&);
void check_written(Warp&, const Op&);
void copy_written(Warp&, const Op&);
void mark_written(Warp&, const Op&);
void nothing(Warp&, const Op&);
void wait_for_dependencies(Warp&, const Op&);  // griddepcontrol.wait
void trap(Warp&, const Op&);

// memory.cpp
void load_global(Warp&, const Op&);
void store_global(Warp&, const Op&);
void load_shared(Warp&, const Op&);
void store_shared(Warp&, const Op&);
void load_param(Warp&, const Op&);
void load_any(Warp&, const Op&);  // generic and local: c says which
void store_any(Warp&, const Op&);
void atomic(Warp&, const Op&);

// warp.cpp: lanes with each other, special registers, packing
void special(Warp&, const Op&);
void window(Warp&, const Op&);  // cvta: adds or takes off a window, or checks that there is none
void pack_16(Warp&, const Op&);
void unpack_16(Warp&, const Op&);
void pack_32(Warp&, const Op&);
void unpack_32(Warp&, const Op&);
void predicate_logic(Warp&, const Op&);
void insert_bits(Warp&, const Op&);
void permute_bytes(Warp&, const Op&);
void logic_3(Warp&, const Op&);
void shuffle(Warp&, const Op&);
void vote(Warp&, const Op&);
void reduce(Warp&, const Op&);
void warp_sync(Warp&, const Op&);

// barriers.cpp
void barrier(Warp&, const Op&);
void mbarrier_init(Warp&, const Op&);
void mbarrier_invalidate(Warp&, const Op&);
void mbarrier_arrive(Warp&, const Op&);
void mbarrier_wait(Warp&, const Op&);

// async.cpp
void copy_async(Warp&, const Op&);
void copy_commit(Warp&, const Op&);
void copy_wait(Warp&, const Op&);
void bulk_copy(Warp&, const Op&);
void tensor_copy(Warp&, const Op&);
void prefetch_map(Warp&, const Op&);

// matrix.cpp
void load_matrix(Warp&, const Op&);
void multiply(Warp&, const Op&);
void product(Warp&, const Op&);
void product_commit(Warp&, const Op&);
void product_wait(Warp&, const Op&);
void whole_warp(Warp&, const Op&);  // .aligned and nothing else

}  // namespace handlers
}  // namespace emulator
