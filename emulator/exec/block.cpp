#include "emulator/exec/block.hpp"

#include <algorithm>
#include <cstring>

namespace emulator {

BlockRunner::BlockRunner(const Grid& grid) : grid_(grid) {
  const Program& program = *grid.program;
  const Launch& launch = *grid.launch;
  block_.grid = &grid;
  block_.threads = launch.block[0] * launch.block[1] * launch.block[2];
  const std::size_t warps = (block_.threads + kLanes - 1) / kLanes;
  registers_.resize(warps * program.register_bytes / 128);
  predicates_.resize(warps * program.predicates);
  block_.warps.resize(warps);
  const std::size_t end = launch.dynamic_shared_bytes > 0
                              ? program.dynamic_shared_start + launch.dynamic_shared_bytes
                              : program.static_shared_end;
  block_.shared.end = static_cast<std::uint32_t>(end);
  block_.shared.bytes.resize(end - kSharedBase + 16);
  block_.shared.states.resize(end - kSharedBase + 16);
  block_.local.resize(warps * kLanes * program.local_stride());
  block_.local_states.resize(block_.local.size());
  block_.ranges.assign(program.code.size(), ~0u);
}

void BlockRunner::start(std::uint64_t number) {
  const Program& program = *grid_.program;
  const Launch& launch = *grid_.launch;
  block_.index = {static_cast<unsigned>(number % launch.grid[0]),
                  static_cast<unsigned>(number / launch.grid[0] % launch.grid[1]),
                  static_cast<unsigned>(number / launch.grid[0] / launch.grid[1])};
  block_.random = Random(grid_.seed * 0x9e3779b97f4a7c15u + number + 1);
  // Everything as late as can be, or as soon, or in between.
  const unsigned mood = block_.random.below(4);
  block_.eagerness = mood == 0 ? 0 : mood == 1 ? 256 : 1u << block_.random.below(8);
  std::fill(block_.shared.bytes.begin(), block_.shared.bytes.end(), std::uint8_t{0xcd});
  std::fill(block_.shared.states.begin(), block_.shared.states.end(), std::uint8_t{0});
  std::fill(block_.local_states.begin(), block_.local_states.end(), std::uint8_t{0});
  block_.mbarriers.clear();
  block_.barriers = {};
  block_.bulk.clear();
  for (unsigned i = 0; i < block_.warps.size(); ++i) {
    Warp& w = block_.warps[i];
    w = Warp{};
    w.bases[0] = reinterpret_cast<std::byte*>(registers_.data()) + i * program.register_bytes;
    w.bases[1] = reinterpret_cast<std::byte*>(const_cast<ConstantRow*>(program.constants.data()));
    w.predicates = predicates_.data() + i * program.predicates;
    w.predicates[0] = 0;
    w.predicates[1] = kAllLanes;
    const unsigned lanes = std::min(kLanes, block_.threads - i * kLanes);
    w.mask = w.live = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
    w.block = &block_;
    w.program = &program;
    w.index = i;
    w.written.assign(program.tracked, 0);
  }
}

std::vector<Report> BlockRunner::run(std::uint64_t number) {
  start(number);
  return proceed();
}

std::vector<Report> BlockRunner::resume() {
  for (Warp& w : block_.warps)
    if (w.state == Warp::State::at_dependency) w.state = Warp::State::ready;
  return proceed();
}

bool BlockRunner::waits_for_dependencies() const {
  return std::any_of(block_.warps.begin(), block_.warps.end(),
                     [](const Warp& w) { return w.state == Warp::State::at_dependency; });
}

std::vector<Report> BlockRunner::proceed() {
  running_ = nullptr;
  try {
    while (true) {
      ready_.clear();
      bool all_done = true;
      for (const Warp& w : block_.warps) {
        if (w.state == Warp::State::ready) ready_.push_back(w.index);
        all_done &= w.state == Warp::State::done;
      }
      if (all_done) break;
      if (ready_.empty()) {
        if (finish_something()) continue;
        if (waits_for_dependencies()) return {};
        deadlock();
      }
      running_ = &block_.warps[ready_[block_.random.below(static_cast<unsigned>(ready_.size()))]];
      step();
      finish_by_chance();
    }
    running_ = nullptr;
    check_end();
  } catch (const Fault& fault) {
    return {describe(fault, running_)};
  }
  return {};
}

// A warp runs for a random while.
void BlockRunner::step() {
  Warp& w = *running_;
  const Op* code = w.program->code.data();
  const std::uint64_t limit = 1 + block_.random.below(256);
  w.paused = false;
  std::uint64_t n = 0;
  while (n < limit && !w.paused) {
    const Op& op = code[w.pc++];
    n += op.counts;
    op.run(w, op);
  }
  steps_ += n;
  if (w.state != Warp::State::done) return;
  if (!w.copies.empty())
    late_fault(w.index, w.copies.front().instruction, w.copies.front().lanes, 0,
               "leaked group: the program ends while this cp.async is in flight");
  if (!w.products.empty())
    late_fault(w.index, w.products.front().op->instruction, kAllLanes, 0,
               "leaked group: the program ends while this wgmma is in flight");
  check_barriers_after_exit(block_);
}

// All warps wait: time passes until a copy arrives.
bool BlockRunner::finish_something() {
  if (block_.bulk.empty()) return false;
  finish_bulk(block_, block_.random.below(static_cast<unsigned>(block_.bulk.size())));
  return true;
}

void BlockRunner::finish_by_chance() {
  if (block_.eagerness == 0) return;
  if (!block_.bulk.empty() && block_.random.below(256) < block_.eagerness)
    finish_bulk(block_, block_.random.below(static_cast<unsigned>(block_.bulk.size())));
  Warp& w = *running_;
  if (!w.copies.empty() && block_.random.below(256) < block_.eagerness) finish_some_copy(w);
  if (!w.products.empty() && block_.random.below(256) < block_.eagerness) finish_first_product(w);
}

void BlockRunner::check_end() const {
  if (!block_.bulk.empty()) {
    const BulkCopy& copy = block_.bulk.front();
    late_fault(copy.warp, copy.instruction, 1u << copy.lane, copy.to,
               "leaked copy: the block ends while this copy to shared memory is in flight");
  }
  for (const MBarrier& barrier : block_.mbarriers)
    if (barrier.bytes != 0)
      fault(0, barrier.address,
            "mbarrier misuse: the block ends while the mbarrier at shared address " +
                std::to_string(barrier.address) + " is " +
                std::to_string(barrier.bytes > 0 ? barrier.bytes : -barrier.bytes) +
                (barrier.bytes > 0 ? " bytes short" : " bytes over"));
}

// Who waits for whom.
void BlockRunner::deadlock() const {
  std::string what = "deadlock:";
  const Program& program = *grid_.program;
  const auto line = [&](const Warp& w) {
    const auto at = static_cast<std::size_t>(w.state == Warp::State::at_mbarrier ? w.pc : w.pc - 1);
    return std::to_string(program.places[program.code[at].instruction].line);
  };
  int blamed = -1;
  for (const Warp& w : block_.warps) {
    if (w.state == Warp::State::done) {
      what += " warp " + std::to_string(w.index) + " has ended;";
      continue;
    }
    if (blamed < 0) blamed = static_cast<int>(w.index);
    what += " warp " + std::to_string(w.index) + " waits at line " + line(w);
    if (w.state == Warp::State::at_barrier) {
      const NamedBarrier& b = block_.barriers[w.barrier];
      what += " at barrier " + std::to_string(w.barrier) + ", where " + std::to_string(b.arrived) + " of " +
              std::to_string(b.expected) + " threads are;";
    } else {
      for (const MBarrier& b : block_.mbarriers)
        if (b.address == w.barrier)
          what += " for parity " + std::to_string(w.parity) + " of the mbarrier at shared address " +
                  std::to_string(b.address) + ", which lacks " + std::to_string(b.pending) +
                  " arrivals and " + std::to_string(b.bytes) + " bytes;";
    }
  }
  what.pop_back();
  const Warp& w = block_.warps[static_cast<std::size_t>(blamed)];
  const auto at = static_cast<std::size_t>(w.state == Warp::State::at_mbarrier ? w.pc : w.pc - 1);
  late_fault(w.index, program.code[at].instruction, w.mask, w.barrier, what);
}

Report BlockRunner::describe(const Fault& fault, const Warp* running) const {
  const Program& program = *grid_.program;
  Report report;
  report.what = fault.what;
  report.kernel = program.name;
  report.block = block_.index;
  report.address = fault.address;
  const Warp* warp = fault.warp >= 0 ? &block_.warps[static_cast<std::size_t>(fault.warp)] : running;
  if (warp == nullptr) return report;
  std::int64_t instruction = fault.instruction;
  if (instruction < 0) {
    // The operation that ran: control flow may have moved on, but only handlers that do not throw move it.
    instruction = program.code[static_cast<std::size_t>(std::max<std::int64_t>(warp->pc - 1, 0))].instruction;
  }
  const Place& place = program.places[static_cast<std::size_t>(instruction)];
  report.ptx_place = program.module->file + ":" + std::to_string(place.line);
  const auto source = program.module->sources.find(place.source_file);
  if (place.source_line > 0 && source != program.module->sources.end())
    report.source = source->second + ":" + std::to_string(place.source_line);
  for (std::uint32_t rest = fault.lanes; rest != 0; rest &= rest - 1)
    report.threads.push_back(warp->index * kLanes + static_cast<unsigned>(__builtin_ctz(rest)));
  report.what += " (" + std::string(place.form) + ")";
  return report;
}

}  // namespace emulator
