// Reads of registers that nothing was written to. Where some path reads a register before it writes it, the
// lanes that have written it are known. mov and selp hand that on: compilers keep variables in registers that
// are set in some lanes or rounds of a loop alone, and copy them as a whole.
#include <algorithm>

#include "emulator/exec/decode.hpp"
#include "emulator/exec/handlers.hpp"

namespace emulator {
namespace {

// Whatever else is wrong with them is said when they are decoded.
bool gives_register(const Instruction& in, std::size_t operands) {
  return in.operands.size() == operands && in.operands[0].kind == Operand::Kind::reg;
}
bool selects(const Instruction& in) { return in.form.starts_with("selp.") && gives_register(in, 4); }
bool copies(const Instruction& in) {
  return selects(in) ||
         (in.form.starts_with("mov.") && gives_register(in, 2) && in.operands[1].kind == Operand::Kind::reg);
}

}  // namespace

void Decoder::track(int reg) {
  int& number = tracked_[static_cast<std::size_t>(reg)];
  if (number < 0) number = static_cast<int>(program_->tracked++);
}

void Decoder::choose_tracked() {
  tracked_.assign(body_.registers.size(), -1);
  for (std::size_t r = 0; r < body_.registers.size(); ++r)
    if (slots_.maybe_unwritten[r]) track(static_cast<int>(r));
  // And what is copied from them.
  for (std::size_t before = 0; before != program_->tracked;) {
    before = program_->tracked;
    for (const Instruction& in : body_.code) {
      if (!copies(in)) continue;
      const bool from_tracked = tracked(in.operands[1]) != kAlwaysWritten ||
                                (selects(in) && tracked(in.operands[2]) != kAlwaysWritten);
      if (from_tracked) track(in.operands[0].reg);
    }
  }
}

std::uint32_t Decoder::tracked(const Operand& operand) const {
  if (operand.kind != Operand::Kind::reg) return kAlwaysWritten;
  const int number = tracked_[static_cast<std::size_t>(operand.reg)];
  return number < 0 ? kAlwaysWritten : static_cast<std::uint32_t>(number);
}

void Decoder::check_reads(const Instruction& in) {
  if (program_->tracked == 0) return;
  find_effects(in, effects_);
  const bool accumulates = in.form.starts_with("wgmma.mma_async");
  for (const int r : effects_.reads) {
    const int number = tracked_[static_cast<std::size_t>(r)];
    if (number < 0) continue;
    // Whether accumulators are read is only known when it runs.
    if (accumulates && std::find(effects_.writes.begin(), effects_.writes.end(), r) != effects_.writes.end())
      continue;
    if (copies(in) && r != in.guard && !(selects(in) && r == in.operands[3].reg)) continue;
    emit(handlers::check_written).x = static_cast<std::uint32_t>(number);
  }
}

void Decoder::mark_writes(const Instruction& in) {
  if (program_->tracked == 0) return;
  if (copies(in)) {
    const std::uint32_t to = tracked(in.operands[0]);
    if (to == kAlwaysWritten) return;
    const std::int32_t chooser = selects(in) ? predicate(in, in.operands[3]) : kAllLanesPredicate;
    Op& op = emit(handlers::copy_written);
    op.x = to;
    op.a = static_cast<std::int32_t>(tracked(in.operands[1]));
    op.b = static_cast<std::int32_t>(selects(in) ? tracked(in.operands[2]) : kAlwaysWritten);
    op.c = chooser;
    return;
  }
  find_effects(in, effects_);
  for (const int r : effects_.writes) {
    const int number = tracked_[static_cast<std::size_t>(r)];
    if (number >= 0) emit(handlers::mark_written).x = static_cast<std::uint32_t>(number);
  }
}

}  // namespace emulator
