#include "machine.hpp"

#include <utility>

namespace tessera::testing_cuda {

void Machine::fail(const std::string& what) {
  failure_ = what;
  leave();  // and is never resumed
  __builtin_unreachable();
}

void Machine::wait_until(std::function<bool()> condition) {
  warps_[current_].condition = std::move(condition);
  leave();
}

void Machine::arrive(unsigned at, int threads, unsigned bytes) {
  perhaps_pause();
  Barrier& b = barrier(at);
  if (b.pending < threads) fail("more arrivals at a barrier than it has");
  b.bytes += bytes;
  b.pending -= threads;
  b.settle();
  perhaps_pause();
}

void Machine::meet(int id, int threads, bool waits) {
  perhaps_pause();
  Meeting& m = meetings_[static_cast<std::size_t>(id)];
  const unsigned times = m.times;
  m.arrived += 32;
  if (m.arrived > threads) fail("more threads at a named barrier than it has");
  if (m.arrived == threads) {
    m.arrived = 0;
    ++m.times;
  } else if (waits) {
    wait_until([&m, times] { return m.times != times; });
  }
}

void Machine::copy(unsigned to, unsigned bytes, const Piece& piece, unsigned barrier_at) {
  perhaps_pause();
  if (to % kUnit != 0 || bytes % kUnit != 0) fail("a copy to an address that is not aligned");
  for (unsigned u = to / kUnit; u < (to + bytes) / kUnit; ++u) {
    if (units_[u].readers > 0) fail("a copy into what a product reads");
    if (units_[u].landing) fail("a copy into what another copy writes");
    units_[u].landing = true;
  }
  copies_.push_back([=, this] {
    for (unsigned u = to / kUnit; u < (to + bytes) / kUnit; ++u) units_[u] = {piece, false, 0};
    Barrier& b = barrier(barrier_at);
    b.bytes -= bytes;
    b.settle();
  });
}

void Machine::read(const std::vector<std::pair<unsigned, unsigned>>& addresses_and_bytes, Piece& piece) {
  piece = units_[addresses_and_bytes[0].first / kUnit].piece;
  for (const auto& [address, bytes] : addresses_and_bytes)
    for (unsigned u = address / kUnit; u < (address + bytes + kUnit - 1) / kUnit; ++u) {
      if (units_[u].landing) fail("a product reads what has not landed");
      if (units_[u].piece != piece) piece = {};
      ++units_[u].readers;
      warps_[current_].reading.push_back(u);
    }
}

Piece Machine::piece_at(unsigned address, int bytes) {
  Piece piece = units_[address / kUnit].piece;
  for (unsigned u = address / kUnit; u < (address + static_cast<unsigned>(bytes) + kUnit - 1) / kUnit; ++u) {
    if (units_[u].landing) fail("a thread reads what has not landed");
    if (units_[u].piece != piece) piece = {};
  }
  return piece;
}

void Machine::commit() {
  warps_[current_].groups.push_back(std::exchange(warps_[current_].reading, {}));
  perhaps_pause();
}

void Machine::wait_for_products(std::size_t pending) {
  perhaps_pause();
  auto& groups = warps_[current_].groups;
  for (; groups.size() > pending; groups.erase(groups.begin()))
    for (const unsigned u : groups.front()) --units_[u].readers;
}

void Machine::start_current() {
  Machine& m = *machine;
  m.warps_[m.current_].body();
  m.warps_[m.current_].ended = true;
  m.leave();
}

void Machine::resume(std::size_t warp) {
  current_ = warp;
  threadIdx.x = warps_[warp].first_thread;
  warps_[warp].condition = nullptr;
  swapcontext(&main_, &warps_[warp].context);
}

std::string Machine::run() {
  machine = this;
  for (Warp& w : warps_) {
    w.stack.resize(1 << 17);
    getcontext(&w.context);
    w.context.uc_stack.ss_sp = w.stack.data();
    w.context.uc_stack.ss_size = w.stack.size();
    makecontext(&w.context, start_current, 0);
  }
  const double pace_of_copies = std::uniform_real_distribution<>(0.1, 5)(random_);
  while (failure_.empty()) {
    // Whose turn it is: a warp that can go on, or a copy.
    std::vector<double> paces;
    for (const Warp& w : warps_) paces.push_back(w.ended || (w.condition && !w.condition()) ? 0 : w.pace);
    paces.push_back(copies_.empty() ? 0 : pace_of_copies);
    if (std::ranges::all_of(paces, [](double pace) { return pace == 0; })) {
      if (!std::ranges::all_of(warps_, [](const Warp& w) { return w.ended; })) failure_ = "nobody can go on";
      break;
    }
    const std::size_t next = std::discrete_distribution<std::size_t>(paces.begin(), paces.end())(random_);
    if (next < warps_.size()) {
      resume(next);
      continue;
    }
    const auto at = copies_.begin() + static_cast<std::ptrdiff_t>(random_() % copies_.size());
    const auto land = std::move(*at);
    copies_.erase(at);
    land();
  }
  if (failure_.empty() && !copies_.empty()) failure_ = "copies are still on their way when the block ends";
  for (const Meeting& m : meetings_)
    if (failure_.empty() && m.arrived != 0) failure_ = "an arrival at a named barrier is left over";
  return failure_;
}

}  // namespace tessera::testing_cuda
