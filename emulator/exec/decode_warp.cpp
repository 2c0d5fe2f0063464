// Moves, predicates, lanes with each other, barriers, and instructions without effect here.
#include "emulator/exec/decode.hpp"

namespace emulator {
namespace {

bool find_special(std::string_view name, Special& out) {
  static const std::map<std::string_view, Special> known = {
      {"%tid.x", Special::tid_x},
      {"%tid.y", Special::tid_y},
      {"%tid.z", Special::tid_z},
      {"%ntid.x", Special::ntid_x},
      {"%ntid.y", Special::ntid_y},
      {"%ntid.z", Special::ntid_z},
      {"%ctaid.x", Special::ctaid_x},
      {"%ctaid.y", Special::ctaid_y},
      {"%ctaid.z", Special::ctaid_z},
      {"%nctaid.x", Special::nctaid_x},
      {"%nctaid.y", Special::nctaid_y},
      {"%nctaid.z", Special::nctaid_z},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%nwarpid", Special::nwarpid},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%dynamic_smem_size", Special::dynamic_smem_size}};
  const auto it = known.find(name);
  if (it == known.end()) return false;
  out = it->second;
  return true;
}

}  // namespace

void Decoder::move(const Instruction& in) {
  need_operands(in, 2, 2);
  const Operand& to = in.operands[0];
  const Operand& from = in.operands[1];
  if (from.kind == Operand::Kind::special) {
    Special which;
    if (!find_special(from.name, which))
      fail(in, "the special register " + std::string(from.name) + " is not known");
    if (in.form != "mov.u32" && in.form != "mov.b32") unknown(in);
    const std::int32_t d = result(in, to, 'w');
    Op& op = emit(handlers::special);
    op.d = d;
    op.c = static_cast<std::int32_t>(which);
    return;
  }
  const bool is_32 = in.form == "mov.b32", is_64 = in.form == "mov.b64";
  if (from.kind == Operand::Kind::list) {
    if ((!is_32 && !is_64) || from.parts.size() != 2) unknown(in);
    const std::int32_t low = word(in, from.parts[0]), high = word(in, from.parts[1]),
                       d = result(in, to, is_64 ? 'q' : 'w');
    Op& op = emit(is_64 ? handlers::pack_32 : handlers::pack_16);
    op.a = low, op.b = high, op.d = d;
    return;
  }
  if (to.kind == Operand::Kind::list) {
    if ((!is_32 && !is_64) || to.parts.size() != 2) unknown(in);
    const std::int32_t source = is_64 ? quad(in, from) : word(in, from);
    const bool has_low = to.parts[0].kind != Operand::Kind::sink,
               has_high = to.parts[1].kind != Operand::Kind::sink;
    const std::int32_t low = has_low ? result(in, to.parts[0], 'w') : 0,
                       high = has_high ? result(in, to.parts[1], 'w') : 0;
    Op& op = emit(is_64 ? handlers::unpack_32 : handlers::unpack_16);
    op.a = source, op.d = low, op.b = high;
    op.y = (has_low ? 1u : 0u) | (has_high ? 2u : 0u);
    return;
  }
  arithmetic(in);
}

void Decoder::predicate_logic(const Instruction& in) {
  const std::string_view opcode = in.form.substr(0, in.form.find('.'));
  const int kind = opcode == "and"   ? 0
                   : opcode == "or"  ? 1
                   : opcode == "xor" ? 2
                   : opcode == "not" ? 3
                   : opcode == "mov" ? 4
                                     : -1;
  if (kind < 0 || in.form.size() != opcode.size() + 5) unknown(in);
  need_operands(in, kind < 3 ? 3 : 2, kind < 3 ? 3 : 2);
  const std::int32_t a = predicate(in, in.operands[1]), b = kind < 3 ? predicate(in, in.operands[2]) : 0,
                     d = predicate_result(in, in.operands[0]);
  Op& op = emit(handlers::predicate_logic);
  op.a = a, op.b = b, op.c = kind, op.d = d;
}

void Decoder::odd_bits(const Instruction& in) {
  Op op;
  op.instruction = instruction_;
  if (in.form == "bfi.b32") {
    need_operands(in, 5, 5);
    op.run = handlers::insert_bits;
    op.x = static_cast<std::uint32_t>(word(in, in.operands[4]));
  } else if (in.form == "prmt.b32") {
    need_operands(in, 4, 4);
    op.run = handlers::permute_bytes;
  } else if (in.form == "lop3.b32") {
    need_operands(in, 5, 5);
    op.run = handlers::logic_3;
    op.y = static_cast<std::uint32_t>(immediate(in, in.operands[4])) & 0xffu;
  } else {
    unknown(in);
  }
  op.a = word(in, in.operands[1]);
  op.b = word(in, in.operands[2]);
  op.c = word(in, in.operands[3]);
  op.d = result(in, in.operands[0], 'w');
  program_->code.push_back(op);
}

void Decoder::shuffle(const Instruction& in) {
  need_operands(in, 5, 5);
  Modifiers form(in.form);
  const std::string_view mode = form.take_any({"up", "down", "bfly", "idx"});
  if (!form.take("sync") || mode.empty() || !form.take("b32") || !form.empty()) unknown(in);
  Operand to = in.operands[0];
  Op op;
  op.run = handlers::shuffle;
  op.instruction = instruction_;
  op.value = -1;
  if (to.paired >= 0) {
    Operand valid;
    valid.kind = Operand::Kind::reg;
    valid.reg = to.paired;
    op.value = predicate_result(in, valid);
    to.paired = -1;
  }
  op.d = result(in, to, 'w');
  op.a = word(in, in.operands[1]);
  op.b = word(in, in.operands[2]);
  op.c = word(in, in.operands[3]);
  op.x = static_cast<std::uint32_t>(word(in, in.operands[4]));
  op.y = mode == "up" ? 0 : mode == "down" ? 1 : mode == "bfly" ? 2 : 3;
  program_->code.push_back(op);
}

void Decoder::vote(const Instruction& in) {
  need_operands(in, 3, 3);
  Modifiers form(in.form);
  const std::string_view mode = form.take_any({"all", "any", "uni", "ballot"});
  const bool ballot = mode == "ballot";
  if (!form.take("sync") || mode.empty() || !form.take(ballot ? "b32" : "pred") || !form.empty()) unknown(in);
  const std::int32_t d = result(in, in.operands[0], ballot ? 'w' : 'p'), a = predicate(in, in.operands[1]),
                     b = word(in, in.operands[2]);
  Op& op = emit(handlers::vote);
  op.d = d, op.a = a, op.b = b;
  op.y = mode == "all" ? 0 : mode == "any" ? 1 : mode == "uni" ? 2 : 3;
}

void Decoder::reduce(const Instruction& in) {
  need_operands(in, 3, 3);
  Modifiers form(in.form);
  const std::string_view mode = form.take_any({"and", "or", "xor", "add", "min", "max"});
  const std::string_view type = form.take_any({"b32", "s32", "u32"});
  if (!form.take("sync") || mode.empty() || type.empty() || !form.empty()) unknown(in);
  const std::int32_t d = result(in, in.operands[0], 'w'), a = word(in, in.operands[1]),
                     b = word(in, in.operands[2]);
  Op& op = emit(handlers::reduce);
  op.d = d, op.a = a, op.b = b;
  op.y = mode == "and"   ? 0
         : mode == "or"  ? 1
         : mode == "xor" ? 2
         : mode == "add" ? 3
                         : (mode == "max" ? 1 : 0) + (type == "s32" ? 4 : 6);
}

void Decoder::barrier(const Instruction& in) {
  if (in.form == "bar.warp.sync") {
    need_operands(in, 1, 1);
    const std::int32_t members = word(in, in.operands[0]);
    emit(handlers::warp_sync).a = members;
    return;
  }
  Modifiers form(in.form);
  form.take("cta");
  Op op;
  op.run = handlers::barrier;
  op.instruction = instruction_;
  op.y = form.opcode == "bar" || form.take("aligned") ? 4 : 0;
  std::size_t first = 0;
  if (form.take("arrive")) {
    op.y |= 2;
  } else if (form.take("red")) {
    const std::string_view how = form.take_any({"or", "and"});
    if (how.empty() || !form.take("pred")) unknown(in);
    op.y |= how == "or" ? 8 : 16;
    first = 1;
  } else if (!form.take("sync")) {
    unknown(in);
  }
  if (!form.empty()) unknown(in);
  need_operands(in, 1 + 2 * first, 2 + 2 * first);
  std::size_t last = in.operands.size();
  if (first == 1) {
    op.d = predicate_result(in, in.operands[0]);
    op.c = predicate(in, in.operands[--last]);
  }
  op.a = word(in, in.operands[first]);
  if (last - first == 2) {
    op.b = word(in, in.operands[first + 1]);
    op.y |= 1;
  } else if ((op.y & 2) != 0) {
    fail(in, "an arrival needs the number of threads");
  }
  program_->code.push_back(op);
}

void Decoder::mbarrier(const Instruction& in) {
  Modifiers form(in.form);
  const std::string_view what =
      form.take_any({"init", "inval", "arrive", "test_wait", "try_wait", "expect_tx"});
  form.take_any({"shared", "shared::cta"});
  form.take_any({"release", "acquire", "relaxed"});
  form.take_any({"cta", "cluster"});
  Op op;
  op.instruction = instruction_;
  std::size_t at = 0;
  if (what == "init") {
    op.run = handlers::mbarrier_init;
    need_operands(in, 2, 2);
    op.b = word(in, in.operands[1]);
  } else if (what == "inval") {
    op.run = handlers::mbarrier_invalidate;
    need_operands(in, 1, 1);
  } else if (what == "arrive" || what == "expect_tx") {
    op.run = handlers::mbarrier_arrive;
    const bool expects = what == "expect_tx" || form.take("expect_tx");
    at = what == "arrive" ? 1 : 0;
    need_operands(in, at + 1 + (expects ? 1 : 0), at + 2);
    if (at == 1 && in.operands[0].kind != Operand::Kind::sink)
      fail(in, "the state of an arrival is not known, only _");
    const bool has_extra = in.operands.size() == at + 2;
    op.y = (what == "arrive" ? kArrives : 0) | (expects ? kExpects : has_extra ? kCounts : 0);
    op.b = has_extra ? word(in, in.operands[at + 1]) : constant(1, false);
  } else if ((what == "test_wait" || what == "try_wait") && form.take("parity")) {
    op.run = handlers::mbarrier_wait;
    need_operands(in, 3, what == "try_wait" ? 4 : 3);
    at = 1;
    op.d = predicate_result(in, in.operands[0]);
    op.b = word(in, in.operands[2]);
    op.y = what == "try_wait" ? kBlocks : 0;
  } else {
    unknown(in);
  }
  if (!form.take("b64") || !form.empty()) unknown(in);
  address(in, in.operands[at], op);
  program_->code.push_back(op);
}

// Blocks run their warps one instruction at a time, so every store is seen at once: fences do nothing.
void Decoder::nothing(const Instruction& in) {
  const std::string_view f = in.form;
  for (const std::string_view known :
       {"fence.mbarrier_init.release.cluster", "fence.proxy.async", "fence.proxy.async.shared::cta",
        "fence.proxy.async.global", "fence.sc.cta", "fence.sc.gpu", "fence.acq_rel.cta", "fence.acq_rel.gpu",
        "fence.acq_rel.cluster", "fence.acq_rel.sys", "membar.cta", "membar.gl", "membar.sys",
        "griddepcontrol.launch_dependents", "nanosleep.u32"}) {
    if (f == known) {
      program_->lets_dependents_start |= f == "griddepcontrol.launch_dependents";
      emit(handlers::nothing);
      return;
    }
  }
  if (f == "setmaxnreg.dec.sync.aligned.u32" || f == "setmaxnreg.inc.sync.aligned.u32") {
    emit(handlers::whole_warp);
    return;
  }
  if (f == "griddepcontrol.wait") {
    emit(handlers::wait_for_dependencies);
    return;
  }
  if (f != "trap") unknown(in);
  emit(handlers::trap);
}

}  // namespace emulator
