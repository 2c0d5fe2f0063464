// The state of a block while it runs: warps, shared memory, barriers, what is on its way.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "emulator/exec/global_memory.hpp"
#include "emulator/exec/launch.hpp"
#include "emulator/exec/program.hpp"
#include "emulator/exec/random.hpp"
#include "emulator/exec/tensor_map.hpp"

namespace emulator {

// Thrown by handlers; the block makes a Report of it.
struct Fault {
  std::string what;
  std::uint32_t lanes;
  std::uint64_t address = 0;
  std::int64_t instruction = -1;  // where it is not the one that runs
  int warp = -1;
};

// Lanes that went two ways. They meet again at `join`: those already there, those still to go the other way.
struct Frame {
  std::int64_t join;  // operation; -1: nowhere before the end
  std::uint32_t arrived, waiting;
  std::int64_t waiting_at;
};

// cp.async of a warp. Groups are counted by each lane for itself.
struct AsyncCopy {
  std::uint32_t lanes;
  std::uint32_t instruction;
  unsigned bytes;  // written
  std::array<std::uint32_t, 32> to;
  std::array<std::uint64_t, 32> from;
  std::array<std::uint32_t, 32> read;  // of those bytes; the others are zeros
  std::array<std::uint32_t, 32> group;
};

// wgmma of a warp: its 16 of the 64 rows.
struct Product {
  const Op* op;
  std::uint32_t group;
  bool add;
  std::uint64_t a_descriptor = 0, b_descriptor = 0;
  std::array<std::array<std::uint32_t, 32>, 4> a;  // where A comes from registers
};

struct Block;
struct Warp {
  std::byte* bases[2] = {nullptr, nullptr};  // registers, constants
  std::uint32_t* predicates = nullptr;
  std::uint32_t mask = 0;  // lanes that run
  std::uint32_t live = 0;  // lanes that have not returned
  std::int64_t pc = 0;     // of the next operation
  bool paused = false;     // leaves the loop over operations
  Block* block = nullptr;
  const Program* program = nullptr;
  unsigned index = 0;  // in the block
  std::uint32_t guard_saved = 0;
  std::vector<Frame> frames;
  std::vector<std::uint32_t> written;  // lanes that wrote each tracked register

  enum class State { ready, at_barrier, at_mbarrier, at_dependency, done } state = State::ready;
  unsigned barrier = 0;  // that it waits at: number, or address of an mbarrier
  std::uint32_t parity = 0;
  std::int32_t reduced = -1;  // predicate that takes the result of bar.red

  std::vector<AsyncCopy> copies;
  std::array<std::uint32_t, 32> committed{};  // groups of cp.async, by lane
  std::deque<Product> products;
  std::uint32_t products_committed = 0;

  template <class T>
  T* at(std::int32_t offset) const {
    return reinterpret_cast<T*>(bases[offset < 0] + (offset & 0x7fffffff));
  }
  std::uint32_t predicate(std::int32_t operand) const {
    return predicates[operand >> 1] ^ (operand & 1 ? kAllLanes : 0u);
  }
  void set_predicate(std::int32_t number, std::uint32_t bits) {
    predicates[number] = (predicates[number] & ~mask) | (bits & mask);
  }
};

enum class ByteState : std::uint8_t { unwritten = 0, written = 1, in_flight = 2, barrier = 3 };

struct SharedMemory {
  std::vector<std::uint8_t> bytes, states;  // from kSharedBase on
  std::uint32_t end = kSharedBase;
  std::uint8_t* at(std::uint32_t address) { return bytes.data() + (address - kSharedBase); }
  std::uint8_t* state(std::uint32_t address) { return states.data() + (address - kSharedBase); }
};

struct MBarrier {
  std::uint32_t address;
  unsigned expected, pending;
  std::int64_t bytes = 0;  // announced and not yet there
  unsigned phase = 0;
};

struct NamedBarrier {
  unsigned expected = 0;  // threads; 0: nobody is here
  unsigned arrived = 0;
  std::uint32_t warps = 0;       // that wait
  std::uint32_t came = 0;        // that have arrived, waiting or not
  bool any = false, all = true;  // of bar.red
  bool whole_block = false;
};

// TMA and bulk copies.
struct BulkCopy {
  std::uint32_t to, bytes, barrier;
  std::uint32_t instruction;
  unsigned warp, lane;
  bool is_tensor;
  std::uint64_t from = 0;  // where it is no tensor
  TensorMap map;
  std::array<std::int32_t, 5> at{};
};

// What all blocks of a launch share.
struct Grid {
  const Program* program = nullptr;
  const Launch* launch = nullptr;
  const MemorySnapshot* memory = nullptr;
  const DeviceDescription* device = nullptr;
  std::uint64_t seed = 0;
  bool early = false;  // the launch before it has not ended
};

struct Block {
  const Grid* grid = nullptr;
  std::array<unsigned, 3> index{};
  std::vector<Warp> warps;
  unsigned threads = 0;
  SharedMemory shared;
  std::vector<std::uint8_t> local;  // of all threads, one behind the other
  std::vector<std::uint8_t> local_states;
  std::vector<MBarrier> mbarriers;
  std::array<NamedBarrier, 16> barriers{};
  std::vector<BulkCopy> bulk;
  Random random;
  unsigned eagerness = 0;             // of what is asynchronous: 0 as late as can be, 256 at once
  std::vector<std::uint32_t> ranges;  // by operation: the allocation it met last
  std::uint64_t steps = 0;
};

[[noreturn]] void fault(std::uint32_t lanes, std::uint64_t address, std::string what);
// One of what an instruction started earlier.
[[noreturn]] void late_fault(unsigned warp, std::uint32_t instruction, std::uint32_t lanes,
                             std::uint64_t address, std::string what);

// Barriers (barriers.cpp)
MBarrier* find_mbarrier(Block& block, std::uint32_t address);
void complete_bytes(Block& block, MBarrier& barrier, std::int64_t bytes);
bool phase_is_over(const MBarrier& barrier, std::uint32_t parity);
void check_barriers_after_exit(Block& block);

// What is on its way (async.cpp, products.cpp)
void finish_copies(Warp& warp, std::uint32_t lanes, std::uint32_t pending);
void finish_some_copy(Warp& warp);
void finish_bulk(Block& block, std::size_t index);
void finish_products(Warp& warp, std::uint32_t pending);
void finish_first_product(Warp& warp);

// Control flow (control.cpp)
void leave(Warp& warp);  // the lanes that run return

}  // namespace emulator
