// Named barriers and mbarriers: who has come, who waits, and what is misuse.
#include <algorithm>
#include <cstring>

#include "emulator/exec/handlers.hpp"

namespace emulator {
namespace {

unsigned live_threads(const Block& block) {
  unsigned n = 0;
  for (const Warp& w : block.warps) n += static_cast<unsigned>(__builtin_popcount(w.live));
  return n;
}

void release(Block& block, NamedBarrier& barrier, unsigned number) {
  for (Warp& w : block.warps) {
    if ((barrier.warps >> w.index & 1u) == 0 || w.state != Warp::State::at_barrier || w.barrier != number)
      continue;
    w.state = Warp::State::ready;
    if (w.reduced >= 0) {
      const bool result = (w.reduced & 1) != 0 ? barrier.all : barrier.any;
      w.set_predicate(w.reduced >> 1, result ? kAllLanes : 0u);
      w.reduced = -1;
    }
  }
  barrier = NamedBarrier{};
}

bool complete(const Block& block, const NamedBarrier& barrier) {
  if (barrier.expected == 0) return false;
  return barrier.arrived >= (barrier.whole_block ? live_threads(block) : barrier.expected);
}

std::uint32_t first_value(const Warp& w, std::int32_t from) {
  return w.at<std::uint32_t>(from)[__builtin_ctz(w.mask)];
}

// Of all lanes that run; they must agree.
std::uint32_t agreed(const Warp& w, std::int32_t from, const char* what) {
  const std::uint32_t value = first_value(w, from);
  const std::uint32_t* all = w.at<std::uint32_t>(from);
  for (unsigned i = 0; i < kLanes; ++i)
    if ((w.mask >> i & 1u) != 0 && all[i] != value)
      fault(1u << i, 0, std::string("lanes of a warp disagree on ") + what);
  return value;
}

MBarrier& need_mbarrier(Warp& w, unsigned lane, std::uint32_t address, const char* what) {
  MBarrier* found = find_mbarrier(*w.block, address);
  if (found == nullptr)
    fault(1u << lane, address,
          "mbarrier misuse: " + std::string(what) + " on shared address " + std::to_string(address) +
              ", where no mbarrier was initialised");
  return *found;
}

void check_address(Warp& w, unsigned lane, std::uint64_t address) {
  if (address < kSharedBase || address + 8 > w.block->shared.end)
    fault(1u << lane, address, "out of bounds: an mbarrier at shared address " + std::to_string(address));
  if (address % 8 != 0)
    fault(1u << lane, address, "misaligned: an mbarrier at shared address " + std::to_string(address));
}

void advance(Block& block, MBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1u;
  barrier.pending = barrier.expected;
  for (Warp& w : block.warps)
    if (w.state == Warp::State::at_mbarrier && w.barrier == barrier.address &&
        phase_is_over(barrier, w.parity))
      w.state = Warp::State::ready;
}

}  // namespace

MBarrier* find_mbarrier(Block& block, std::uint32_t address) {
  for (MBarrier& barrier : block.mbarriers)
    if (barrier.address == address) return &barrier;
  return nullptr;
}
bool phase_is_over(const MBarrier& barrier, std::uint32_t parity) { return barrier.phase != (parity & 1u); }

void complete_bytes(Block& block, MBarrier& barrier, std::int64_t bytes) {
  barrier.bytes -= bytes;
  advance(block, barrier);
}

void check_barriers_after_exit(Block& block) {
  for (unsigned i = 0; i < block.barriers.size(); ++i)
    if (complete(block, block.barriers[i])) release(block, block.barriers[i], i);
}

namespace handlers {

// a: number; b: threads (y & 1: given); y & 2: only arrives; y & 4: aligned; c: predicate, d: result where
// y & 8 (or) or y & 16 (and)
void barrier(Warp& w, const Op& op) {
  Block& block = *w.block;
  if ((op.y & 4) != 0 && w.mask != w.live)
    fault(w.live & ~w.mask, 0, "divergent barrier: lanes of the warp are elsewhere");
  const std::uint32_t number = agreed(w, op.a, "the barrier's number");
  if (number > 15) fault(w.mask, 0, "barrier " + std::to_string(number) + ": there are 0 to 15");
  NamedBarrier& here = block.barriers[number];
  const bool counted = (op.y & 1) != 0;
  const unsigned threads = counted ? agreed(w, op.b, "the barrier's threads") : block.threads;
  if (counted && (threads == 0 || threads % kLanes != 0))
    fault(w.mask, 0, "a barrier for " + std::to_string(threads) + " threads: not a multiple of 32");
  if (here.expected != 0 && here.expected != threads)
    fault(w.mask, 0,
          "barrier " + std::to_string(number) + " for " + std::to_string(threads) +
              " threads, while others wait there for " + std::to_string(here.expected));
  here.expected = threads;
  here.whole_block = !counted;
  here.came |= 1u << w.index;
  here.arrived += static_cast<unsigned>(counted ? 32 * (w.mask == w.live) +
                                                      __builtin_popcount(w.mask) * (w.mask != w.live)
                                                : __builtin_popcount(w.mask));
  if (counted && here.arrived > threads)
    fault(w.mask, 0,
          "barrier " + std::to_string(number) + ": more than the " + std::to_string(threads) +
              " threads it is for");
  if ((op.y & 24) != 0) {
    const std::uint32_t yes = w.predicate(op.c) & w.mask;
    here.any |= yes != 0;
    here.all &= yes == w.mask;
    w.reduced = op.d << 1 | ((op.y & 16) != 0 ? 1 : 0);
  }
  if ((op.y & 2) == 0) {
    here.warps |= 1u << w.index;
    w.state = Warp::State::at_barrier;
    w.barrier = number;
    w.paused = true;
  }
  if (complete(block, here)) release(block, here, number);
}

void mbarrier_init(Warp& w, const Op& op) {
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const std::uint32_t* count = w.at<std::uint32_t>(op.b);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    check_address(w, lane, at[lane]);
    const auto address = static_cast<std::uint32_t>(at[lane]);
    if (find_mbarrier(*w.block, address) != nullptr)
      fault(1u << lane, address, "mbarrier misuse: initialised while it is in use");
    if (count[lane] == 0 || count[lane] > 0xfffff)
      fault(1u << lane, address,
            "mbarrier misuse: initialised for " + std::to_string(count[lane]) + " arrivals");
    w.block->mbarriers.push_back({address, count[lane], count[lane], 0, 0});
    std::memset(w.block->shared.state(address), static_cast<int>(ByteState::barrier), 8);
  }
}

void mbarrier_invalidate(Warp& w, const Op& op) {
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    check_address(w, lane, at[lane]);
    MBarrier& barrier = need_mbarrier(w, lane, static_cast<std::uint32_t>(at[lane]), "inval");
    std::memset(w.block->shared.state(barrier.address), static_cast<int>(ByteState::unwritten), 8);
    auto& all = w.block->mbarriers;
    all.erase(all.begin() + (&barrier - all.data()));
  }
}

// b: bytes to expect (y & kExpects), or arrivals (y & kCounts); without kArrives only the bytes are announced
void mbarrier_arrive(Warp& w, const Op& op) {
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const std::uint32_t* extra = w.at<std::uint32_t>(op.b);
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    check_address(w, lane, at[lane]);
    MBarrier& barrier = need_mbarrier(w, lane, static_cast<std::uint32_t>(at[lane]), "an arrival");
    if ((op.y & kExpects) != 0) barrier.bytes += extra[lane];
    if (barrier.bytes > 0xfffff)
      fault(1u << lane, at[lane], "mbarrier misuse: more than 2^20 - 1 bytes expected in a phase");
    if ((op.y & kArrives) != 0) {
      const std::uint32_t n = (op.y & kCounts) != 0 ? extra[lane] : 1;
      if (n == 0 || n > barrier.pending)
        fault(1u << lane, at[lane],
              "mbarrier misuse: " + std::to_string(n) + " arrivals where the phase waits for " +
                  std::to_string(barrier.pending));
      barrier.pending -= n;
    }
    advance(*w.block, barrier);
  }
}

// d: predicate; b: parity; y & kBlocks: waits (try_wait), else only asks
void mbarrier_wait(Warp& w, const Op& op) {
  std::uint64_t at[kLanes];
  find_addresses(w, op.a, op.value, op.y, at);
  const std::uint32_t* parity = w.at<std::uint32_t>(op.b);
  std::uint32_t over = 0;
  for (std::uint32_t rest = w.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(__builtin_ctz(rest));
    check_address(w, lane, at[lane]);
    const MBarrier& barrier = need_mbarrier(w, lane, static_cast<std::uint32_t>(at[lane]), "a wait");
    if (parity[lane] > 1)
      fault(1u << lane, at[lane], "mbarrier misuse: a parity of " + std::to_string(parity[lane]));
    if (phase_is_over(barrier, parity[lane])) {
      over |= 1u << lane;
    } else {
      w.barrier = barrier.address;
      w.parity = parity[lane];
    }
  }
  if ((op.y & kBlocks) != 0 && over == 0) {
    w.state = Warp::State::at_mbarrier;
    w.paused = true;
    --w.pc;  // asks again when the phase is over
    return;
  }
  w.set_predicate(op.d, over);
}

}  // namespace handlers
}  // namespace emulator
