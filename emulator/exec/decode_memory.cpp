// Loads, stores, atomics, addresses, copies.
#include "emulator/exec/decode.hpp"
#include "emulator/exec/lanes/table.hpp"

namespace emulator {
namespace {

// Cache hints: no effect here.
void drop_hints(Modifiers& form) {
  form.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  form.take_any(
      {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  form.take_any({"L2::64B", "L2::128B", "L2::256B"});
  form.take_any({"L2::evict_last", "L2::evict_normal", "L2::evict_first"});
}
void drop_order(Modifiers& form) {
  form.take_any({"volatile", "relaxed", "acquire", "release", "acq_rel", "weak"});
  form.take_any({"cta", "gpu", "sys", "cluster"});
}

bool take_type(Modifiers& form, unsigned& bytes, bool& is_signed) {
  const std::string_view type = form.take_any(
      {"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"});
  if (type.empty()) return false;
  is_signed = type[0] == 's';
  const std::string_view bits = type.substr(1);
  bytes = bits == "8" ? 1 : bits == "16" ? 2 : bits == "32" ? 4 : 8;
  return true;
}

}  // namespace

void Decoder::load(const Instruction& in) { access(in, false); }
void Decoder::store(const Instruction& in) { access(in, true); }

void Decoder::access(const Instruction& in, bool is_store) {
  need_operands(in, 2, 2);
  Modifiers form(in.form);
  drop_order(form);
  const std::string_view space = form.take_any({"global", "shared", "shared::cta", "param", "local"});
  form.take("nc");
  drop_hints(form);
  AccessForm access{};
  access.vector = form.take("v4") ? 4 : form.take("v2") ? 2 : 1;
  if (!take_type(form, access.bytes, access.is_signed) || !form.empty()) unknown(in);
  const Operand& data = in.operands[is_store ? 1 : 0];
  std::vector<Operand> parts = data.kind == Operand::Kind::list ? data.parts : std::vector<Operand>{data};
  if (parts.size() != access.vector) fail(in, "has as many registers as its vector has elements, or not");
  std::vector<std::int32_t> rows;
  for (const Operand& part : parts) {
    const bool is_register = part.kind == Operand::Kind::reg;
    const bool wide = is_register
                          ? body_.registers[static_cast<std::size_t>(part.reg)] == RegisterType::bits64
                          : access.bytes == 8;
    if (access.bytes == 8 && !wide) fail(in, "64 bits into a smaller register");
    if (!rows.empty() && wide != access.wide) fail(in, "registers of different sizes");
    access.wide = wide;
    if (is_store) {
      rows.push_back(wide ? quad(in, part) : word(in, part));
    } else {
      rows.push_back(result(in, part, wide ? 'q' : 'w'));
    }
  }
  Op op;
  op.y = access.packed();
  op.x = add_list(rows);
  address(in, in.operands[is_store ? 0 : 1], op);
  op.instruction = instruction_;
  if (space == "global") {
    op.run = is_store ? handlers::store_global : handlers::load_global;
  } else if (space == "shared" || space == "shared::cta") {
    op.run = is_store ? handlers::store_shared : handlers::load_shared;
  } else if (space == "param") {
    if (is_store) unknown(in);
    op.run = handlers::load_param;
  } else {
    op.c = space == "local" ? static_cast<std::int32_t>(kLocalWindow >> 56) : 0;
    op.run = is_store ? handlers::store_any : handlers::load_any;
  }
  program_->code.push_back(op);
}

void Decoder::atomic(const Instruction& in) {
  Modifiers form(in.form);
  const bool has_result =
      form.opcode == "atom" && in.operands.size() > 1 && in.operands[0].kind != Operand::Kind::sink;
  const std::size_t first = form.opcode == "atom" ? 1 : 0;
  drop_order(form);
  const std::string_view space = form.take_any({"global", "shared", "shared::cta"});
  const std::string_view what = form.take_any({"add", "and", "or", "xor", "exch", "cas", "min", "max"});
  const bool is_float = form.first() == "f32";
  AccessForm access{};
  access.vector = 1;
  if (what.empty() || !take_type(form, access.bytes, access.is_signed) || !form.empty() || access.bytes < 4)
    unknown(in);
  if (is_float && what != "add") unknown(in);
  need_operands(in, first + (what == "cas" ? 3 : 2), first + (what == "cas" ? 3 : 2));
  const AtomicKind kind = is_float         ? AtomicKind::add_float
                          : what == "add"  ? AtomicKind::add
                          : what == "and"  ? AtomicKind::bit_and
                          : what == "or"   ? AtomicKind::bit_or
                          : what == "xor"  ? AtomicKind::bit_xor
                          : what == "exch" ? AtomicKind::exchange
                          : what == "cas"  ? AtomicKind::compare
                          : what == "min"
                              ? (access.is_signed ? AtomicKind::min_signed : AtomicKind::min_unsigned)
                              : (access.is_signed ? AtomicKind::max_signed : AtomicKind::max_unsigned);
  const char letter = access.bytes == 8 ? 'q' : 'w';
  const auto window =
      static_cast<std::int32_t>(space == "shared" || space == "shared::cta" ? kSharedWindow >> 56 : 0);
  Op op;
  op.run = handlers::atomic;
  op.instruction = instruction_;
  op.y = access.packed() | (has_result ? kHasResult : 0);
  op.c = static_cast<std::int32_t>(kind) | window << 8;
  address(in, in.operands[first], op);
  op.b = by_kind(in, in.operands[first + 1], letter);
  op.x = static_cast<std::uint32_t>(what == "cas" ? by_kind(in, in.operands[first + 2], letter) : op.b);
  if (has_result) op.d = result(in, in.operands[0], letter);
  program_->code.push_back(op);
}

void Decoder::window(const Instruction& in) {
  need_operands(in, 2, 2);
  Modifiers form(in.form);
  const bool to = form.take("to");
  const std::string_view space = form.take_any({"global", "shared", "shared::cta", "param", "local"});
  if (space.empty() || !form.take("u64") || !form.empty()) unknown(in);
  const std::int32_t from = quad(in, in.operands[1]), into = result(in, in.operands[0], 'q');
  Op& op = emit(handlers::window);
  op.a = from;
  op.d = into;
  op.c = to ? 1 : 0;
  op.value = static_cast<std::int64_t>(space == "global"  ? 0
                                       : space == "param" ? kParamWindow
                                       : space == "local" ? kLocalWindow
                                                          : kSharedWindow);
}

// How long L2 keeps what is read by it: nothing is seen of that here, so any number will do.
void Decoder::policy(const Instruction& in) {
  if (in.form != "createpolicy.fractional.L2::evict_first.b64") unknown(in);
  need_operands(in, 1, 1);
  const std::int32_t zero = constant(0, true), into = result(in, in.operands[0], 'q');
  Op& op = emit(find_form("mov.b64")->run);
  op.a = zero;
  op.d = into;
}

void Decoder::copy(const Instruction& in) {
  Modifiers form(in.form);
  if (!form.take("async")) unknown(in);
  if (form.take("commit_group") && form.empty()) {
    emit(handlers::copy_commit);
    return;
  }
  if (form.take("wait_group") && form.empty()) {
    need_operands(in, 1, 1);
    const std::int64_t pending = immediate(in, in.operands[0]);
    if (pending < 0) fail(in, "groups are counted from 0");
    emit(handlers::copy_wait).value = pending;
    return;
  }
  if (form.take("wait_all") && form.empty()) {
    emit(handlers::copy_wait).value = -1;
    return;
  }
  if (form.take("bulk")) return copy_bulk(in, form);
  drop_hints(form);
  const bool to_shared = form.take("shared") || form.take("shared::cta");
  if (!to_shared || !form.take("global")) unknown(in);
  const bool hint = form.take("L2::cache_hint");
  if (!form.empty()) unknown(in);
  if (hint) need_operands(in, 5, 5);
  if (!hint) need_operands(in, 3, 4);
  const std::int64_t bytes = immediate(in, in.operands[2]);
  if (bytes != 4 && bytes != 8 && bytes != 16) fail(in, "copies 4, 8 or 16 bytes");
  std::vector<std::int32_t> list;
  wide_address(in, in.operands[1], list);
  list.push_back(in.operands.size() > 3 ? word(in, in.operands[3]) : kNoOperand);
  Op op;
  op.run = handlers::copy_async;
  op.instruction = instruction_;
  op.c = static_cast<std::int32_t>(bytes);
  address(in, in.operands[0], op);
  op.x = add_list(list);
  program_->code.push_back(op);
}

// Only loads to shared memory that an mbarrier is told of; and to L2, of which nothing is seen here.
void Decoder::copy_bulk(const Instruction& in, Modifiers& form) {
  const bool prefetches = form.take("prefetch");
  const bool tensor = form.take("tensor");
  const std::string_view dims = form.take_any({"1d", "2d", "3d", "4d", "5d"});
  if (prefetches) {
    const bool known = tensor && !dims.empty() && form.take("L2") && form.take("global");
    const std::size_t operands = form.take("L2::cache_hint") ? 2 : 1;
    if (!known || !form.empty()) unknown(in);
    need_operands(in, operands, operands);
    if (in.operands[0].parts.size() != static_cast<std::size_t>(dims[0] - '0'))
      fail(in, "as many coordinates as dimensions, or not");
    emit(handlers::nothing);
    return;
  }
  const bool to_shared = form.take("shared::cluster") || form.take("shared::cta");
  const bool known = to_shared && form.take("global") && form.take("mbarrier::complete_tx::bytes");
  form.take("tile");
  const bool hint = form.take("L2::cache_hint");
  if (!known || !form.empty() || tensor == dims.empty()) unknown(in);
  Op op;
  op.instruction = instruction_;
  address(in, in.operands.empty() ? Operand{} : in.operands[0], op);
  std::vector<std::int32_t> list;
  if (!tensor) {
    need_operands(in, hint ? 5 : 4, hint ? 5 : 4);
    wide_address(in, in.operands[1], list);
    list.push_back(word(in, in.operands[2]));
    narrow_address(in, in.operands[3], list);
    op.run = handlers::bulk_copy;
  } else {
    need_operands(in, hint ? 4 : 3, hint ? 4 : 3);
    const auto rank = static_cast<std::size_t>(dims[0] - '0');
    if (in.operands[1].parts.size() != rank) fail(in, "as many coordinates as dimensions, or not");
    wide_address(in, in.operands[1], list);
    narrow_address(in, in.operands[2], list);
    list.push_back(static_cast<std::int32_t>(rank));
    for (const Operand& part : in.operands[1].parts) list.push_back(word(in, part));
    op.run = handlers::tensor_copy;
  }
  op.x = add_list(list);
  program_->code.push_back(op);
}

void Decoder::prefetch(const Instruction& in) {
  need_operands(in, 1, 1);
  Modifiers form(in.form);
  if (form.take("tensormap") && form.empty()) {
    address(in, in.operands[0], emit(handlers::prefetch_map));
    return;
  }
  form.take("global");
  if (form.take_any({"L1", "L2"}).empty() || !form.empty()) unknown(in);
  emit(handlers::nothing);
}

}  // namespace emulator
