// Branches, lanes that part and meet again, guards, returns.
#include "emulator/exec/handlers.hpp"

namespace emulator {

void fault(std::uint32_t lanes, std::uint64_t address, std::string what) {
  throw Fault{std::move(what), lanes, address};
}
void late_fault(unsigned warp, std::uint32_t instruction, std::uint32_t lanes, std::uint64_t address,
                std::string what) {
  throw Fault{std::move(what), lanes, address, instruction, static_cast<int>(warp)};
}

namespace {

// The next lanes to run: those that wait to go the other way, else those that have met.
void resume(Warp& w) {
  while (!w.frames.empty()) {
    Frame& top = w.frames.back();
    if (top.waiting != 0) {
      w.mask = top.waiting;
      w.pc = top.waiting_at;
      top.waiting = 0;
      return;
    }
    const Frame met = top;
    w.frames.pop_back();
    if (met.arrived != 0) {
      w.mask = met.arrived;
      w.pc = met.join;
      return;
    }
  }
  w.state = Warp::State::done;
  w.paused = true;
}

}  // namespace

void leave(Warp& w) {
  w.live &= ~w.mask;
  w.mask = 0;
  resume(w);
}

namespace handlers {

void jump(Warp& w, const Op& op) { w.pc = op.value; }

// a: predicate; value: target; x: where the two ways meet, plus one
void branch(Warp& w, const Op& op) {
  const std::uint32_t taken = w.mask & w.predicate(op.a);
  if (taken == 0) return;
  if (taken == w.mask) {
    w.pc = op.value;
    return;
  }
  const std::uint32_t rest = w.mask & ~taken;
  const std::int64_t join = static_cast<std::int64_t>(op.x) - 1;
  const std::int64_t next = w.pc;
  const bool taken_joins = op.value == join, rest_joins = next == join;
  if (taken_joins || rest_joins) {
    const std::uint32_t there = taken_joins ? taken : rest;
    if (!w.frames.empty() && w.frames.back().join == join) {
      w.frames.back().arrived |= there;
    } else {
      w.frames.push_back({join, there, 0, 0});
    }
    w.mask = taken_joins ? rest : taken;
    w.pc = taken_joins ? next : op.value;
    return;
  }
  if (w.block->random.next() & 1) {
    w.frames.push_back({join, 0, rest, next});
    w.mask = taken;
    w.pc = op.value;
  } else {
    w.frames.push_back({join, 0, taken, op.value});
    w.mask = rest;
  }
}

// Stands before the first instruction of a block where lanes may meet.
void join(Warp& w, const Op&) {
  const std::int64_t here = w.pc - 1;
  while (!w.frames.empty() && w.frames.back().join == here) {
    Frame& top = w.frames.back();
    top.arrived |= w.mask;
    if (top.waiting != 0) {
      w.mask = top.waiting;
      w.pc = top.waiting_at;
      top.waiting = 0;
      return;
    }
    w.mask = top.arrived;
    w.frames.pop_back();
  }
}

void leave_program(Warp& w, const Op&) { leave(w); }

// a: predicate; value: the operation behind the guarded ones, which ends the guard
void guard_begin(Warp& w, const Op& op) {
  w.guard_saved = w.mask;
  w.mask &= w.predicate(op.a);
  if (w.mask == 0) w.pc = op.value;
}
void guard_end(Warp& w, const Op&) { w.mask = w.guard_saved; }

// Under a guard a return leaves the other lanes where they are.
void leave_guarded(Warp& w, const Op&) {
  const std::uint32_t rest = w.guard_saved & ~w.mask;
  w.live &= ~w.mask;
  w.guard_saved = w.mask = rest;  // for the end of the guard, which follows
  if (rest == 0) resume(w);
}

// x: number of the tracked register
void check_written(Warp& w, const Op& op) {
  const std::uint32_t missing = w.mask & ~w.written[op.x];
  if (missing != 0) fault(missing, 0, "uninitialised register: it is read before anything was written to it");
}
void mark_written(Warp& w, const Op& op) { w.written[op.x] |= w.mask; }

// x: the tracked register that takes a copy; a where c holds, else b
void copy_written(Warp& w, const Op& op) {
  const auto lanes = [&](std::int32_t number) {
    const auto n = static_cast<std::uint32_t>(number);
    return n == kAlwaysWritten ? kAllLanes : w.written[n];
  };
  const std::uint32_t chosen = w.predicate(op.c);
  const std::uint32_t copied = (chosen & lanes(op.a)) | (~chosen & lanes(op.b));
  w.written[op.x] = (w.written[op.x] & ~w.mask) | (copied & w.mask);
}

void nothing(Warp&, const Op&) {}

void wait_for_dependencies(Warp& w, const Op&) {
  if (!w.block->grid->early) return;
  w.state = Warp::State::at_dependency;
  w.paused = true;
}

void trap(Warp& w, const Op&) { fault(w.mask, 0, "trap: the program says that this must not happen"); }

}  // namespace handlers
}  // namespace emulator
