#include "emulator/exec/decode.hpp"

#include <algorithm>
#include <unordered_map>

#include "emulator/exec/lanes/table.hpp"
#include "emulator/ptx/error.hpp"

namespace emulator {

Modifiers::Modifiers(std::string_view form) {
  std::size_t at = form.find('.');
  opcode = form.substr(0, at);
  while (at != std::string_view::npos) {
    const std::size_t next = form.find('.', at + 1);
    rest_.push_back(form.substr(at + 1, next == std::string_view::npos ? next : next - at - 1));
    at = next;
  }
}
bool Modifiers::take(std::string_view modifier) {
  const auto it = std::find(rest_.begin(), rest_.end(), modifier);
  if (it == rest_.end()) return false;
  rest_.erase(it);
  return true;
}
std::string_view Modifiers::take_any(std::initializer_list<std::string_view> modifiers) {
  for (const std::string_view m : modifiers)
    if (take(m)) return m;
  return {};
}

Decoder::Decoder(const Module& module, const Entry& entry, const TensorCore& tensor_core)
    : module_(module),
      entry_(entry),
      body_(parse_body(module, entry)),
      program_(std::make_unique<Program>()) {
  program_->name = entry.name;
  program_->module = &module;
  program_->param_bytes = entry.param_bytes;
  program_->tensor_core = tensor_core;
  if (body_.code.empty()) {
    Instruction end;
    end.form = "ret";
    end.line = entry.first_line;
    body_.code.push_back(end);
  }
  blocks_ = find_blocks(body_, module.file);
  slots_ = allocate_slots(body_, blocks_);
  low_half_ = slots_.words++ * 128;
}

void Decoder::fail(const Instruction& in, const std::string& sentence) const {
  throw PtxError(module_.file, in.line, "'" + std::string(in.form) + "': " + sentence);
}
void Decoder::unknown(const Instruction& in) const { fail(in, "this form is not known to the emulator"); }

Op& Decoder::emit(Handler run) {
  Op op;
  op.run = run;
  op.instruction = instruction_;
  program_->code.push_back(op);
  return program_->code.back();
}

void Decoder::need_operands(const Instruction& in, std::size_t least, std::size_t most) const {
  if (in.operands.size() < least || in.operands.size() > most)
    fail(in, "has " + std::to_string(in.operands.size()) + " operands");
}

// Static variables one behind the other, dynamic memory behind them at its own alignment.
void Decoder::lay_out_shared() {
  const auto up = [](std::size_t at, std::size_t align) { return (at + align - 1) / align * align; };
  std::size_t shared = kSharedBase, local = 0, dynamic_align = 16, param = 0;
  variable_values_.assign(body_.variables.size(), -1);
  std::vector<bool> used(body_.variables.size(), false);
  for (const Instruction& in : body_.code)
    for (const Operand& operand : in.operands)
      if (operand.symbol >= 0) used[static_cast<std::size_t>(operand.symbol)] = true;
  for (std::size_t i = 0; i < body_.variables.size(); ++i) {
    const Variable& variable = body_.variables[i];
    if (variable.space == Space::param)
      variable_values_[i] = static_cast<std::int64_t>(entry_.param_offsets[param++]);
    if (!used[i]) continue;
    if (variable.space == Space::shared && variable.is_dynamic) {
      dynamic_align = std::max(dynamic_align, variable.align);
    } else if (variable.space == Space::shared) {
      shared = up(shared, variable.align);
      variable_values_[i] = static_cast<std::int64_t>(shared);
      shared += variable.bytes;
    } else if (variable.space == Space::local) {
      local = up(local, variable.align);
      variable_values_[i] = static_cast<std::int64_t>(local);
      local += variable.bytes;
    }
  }
  constexpr std::size_t kMost = std::size_t{1} << 24;
  if (shared > kMost || local > kMost)
    throw PtxError(module_.file, entry_.first_line,
                   "the entry has more than 16 MiB of shared or of a thread's local memory");
  program_->static_shared_end = static_cast<std::uint32_t>(shared);
  program_->dynamic_shared_start = static_cast<std::uint32_t>(up(shared, dynamic_align));
  program_->local_bytes = local;
  for (std::size_t i = 0; i < body_.variables.size(); ++i)
    if (used[i] && body_.variables[i].space == Space::shared && body_.variables[i].is_dynamic)
      variable_values_[i] = program_->dynamic_shared_start;
}

void Decoder::lay_out_registers() {
  program_->register_bytes =
      static_cast<std::size_t>(slots_.words) * 128 + static_cast<std::size_t>(slots_.doubles) * 256;
  program_->predicates = 2 + static_cast<std::size_t>(slots_.predicates);
  choose_tracked();
}

std::unique_ptr<Program> Decoder::decode() {
  lay_out_shared();
  lay_out_registers();
  std::vector<bool> meets(blocks_.size() + 1, false);
  for (const BasicBlock& block : blocks_)
    if (block.meets_at >= 0 && block.next.size() > 1) meets[static_cast<std::size_t>(block.meets_at)] = true;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    block_starts_.push_back(static_cast<std::int64_t>(program_->code.size()));
    instruction_ = static_cast<std::uint32_t>(blocks_[b].first);
    if (meets[b]) emit(handlers::join);
    for (int i = blocks_[b].first; i < blocks_[b].end; ++i) {
      instruction_ = static_cast<std::uint32_t>(i);
      const Instruction& in = body_.code[static_cast<std::size_t>(i)];
      if (is_branch(in) || is_return(in)) {
        flow(in, blocks_[b], in.guard >= 0);
      } else {
        one(in);
      }
    }
  }
  block_starts_.push_back(static_cast<std::int64_t>(program_->code.size()));
  emit(handlers::leave_program);  // code that ends without ret
  patch_targets();
  for (Op& op : program_->code)
    for (const Handler beside : {handlers::join, handlers::guard_begin, handlers::guard_end,
                                 handlers::check_written, handlers::mark_written, handlers::copy_written})
      if (op.run == beside) op.counts = 0;
  for (const Instruction& in : body_.code)
    program_->places.push_back({in.line, in.source_file, in.source_line, in.form});
  return std::move(program_);
}

Operand guard_of(const Instruction& in) {
  Operand guard;
  guard.kind = Operand::Kind::reg;
  guard.reg = in.guard;
  guard.negated = in.guard_negated;
  return guard;
}

void Decoder::flow(const Instruction& in, const BasicBlock& block, bool guarded) {
  check_reads(in);
  if (is_return(in)) {
    if (!guarded) {
      emit(handlers::leave_program);
      return;
    }
    Op& begin = emit(handlers::guard_begin);
    begin.a = predicate(in, guard_of(in));
    begin.value = static_cast<std::int64_t>(program_->code.size()) + 1;
    emit(handlers::leave_guarded);
    emit(handlers::guard_end);
    return;
  }
  // Blocks for now; operations when all are known.
  const auto target = std::lower_bound(blocks_.begin(), blocks_.end(), in.operands[0].value,
                                       [](const BasicBlock& b, std::int64_t at) { return b.first < at; });
  const std::int32_t condition = guarded ? predicate(in, guard_of(in)) : 0;
  Op& op = emit(guarded ? handlers::branch : handlers::jump);
  op.value = target - blocks_.begin();
  op.a = condition;
  op.x = static_cast<std::uint32_t>(block.meets_at + 1);
}

void Decoder::patch_targets() {
  for (Op& op : program_->code) {
    if (op.run != handlers::branch && op.run != handlers::jump) continue;
    op.value = block_starts_[static_cast<std::size_t>(op.value)];
    if (op.run == handlers::branch && op.x != 0)
      op.x = static_cast<std::uint32_t>(block_starts_[op.x - 1] + 1);
  }
}

void Decoder::one(const Instruction& in) {
  check_reads(in);
  if (in.guard < 0) {
    dispatch(in);
    mark_writes(in);
    return;
  }
  const std::int32_t condition = predicate(in, guard_of(in));
  const std::size_t begin = program_->code.size();
  emit(handlers::guard_begin).a = condition;
  dispatch(in);
  mark_writes(in);
  program_->code[begin].value = static_cast<std::int64_t>(program_->code.size());
  emit(handlers::guard_end);
}

// A conversion may read the low part of a register that is wider than its type (PTX ISA, "Operand Size
// Exceeding Instruction-Type Size"): that part goes to a register of its own first.
bool Decoder::reads_low_half(const Instruction& in, char kind) {
  if (kind == 'q' || kind == 'p' || in.form.substr(0, 4) != "cvt.") return false;
  const Operand& source = in.operands[1];
  return source.kind == Operand::Kind::reg &&
         body_.registers[static_cast<std::size_t>(source.reg)] == RegisterType::bits64;
}

void Decoder::arithmetic(const Instruction& in) {
  const Form* form = find_form(in.form);
  if (form == nullptr) unknown(in);
  const std::size_t count = form->signature.size() - 2;
  need_operands(in, count + 1, count + 1);
  Op op;
  if (reads_low_half(in, form->signature[2])) {
    Op& low = emit(find_form("cvt.u32.u64")->run);
    low.a = quad(in, in.operands[1]);
    low.d = op.a = low_half_;
    low.counts = 0;
  } else {
    std::int32_t* fields[3] = {&op.a, &op.b, &op.c};
    for (std::size_t i = 0; i < count; ++i)
      *fields[i] = by_kind(in, in.operands[i + 1], form->signature[i + 2]);
  }
  op.d = result(in, in.operands[0], form->signature[0]);
  op.run = form->run;
  op.instruction = instruction_;
  program_->code.push_back(op);
}

void Decoder::dispatch(const Instruction& in) {
  using Family = void (Decoder::*)(const Instruction&);
  static const std::unordered_map<std::string_view, Family> families = {{"ld", &Decoder::load},
                                                                        {"ldu", &Decoder::load},
                                                                        {"st", &Decoder::store},
                                                                        {"atom", &Decoder::atomic},
                                                                        {"red", &Decoder::atomic},
                                                                        {"cvta", &Decoder::window},
                                                                        {"cp", &Decoder::copy},
                                                                        {"prefetch", &Decoder::prefetch},
                                                                        {"createpolicy", &Decoder::policy},
                                                                        {"mov", &Decoder::move},
                                                                        {"bfi", &Decoder::odd_bits},
                                                                        {"prmt", &Decoder::odd_bits},
                                                                        {"lop3", &Decoder::odd_bits},
                                                                        {"shfl", &Decoder::shuffle},
                                                                        {"vote", &Decoder::vote},
                                                                        {"redux", &Decoder::reduce},
                                                                        {"bar", &Decoder::barrier},
                                                                        {"barrier", &Decoder::barrier},
                                                                        {"mbarrier", &Decoder::mbarrier},
                                                                        {"fence", &Decoder::nothing},
                                                                        {"membar", &Decoder::nothing},
                                                                        {"setmaxnreg", &Decoder::nothing},
                                                                        {"griddepcontrol", &Decoder::nothing},
                                                                        {"trap", &Decoder::nothing},
                                                                        {"nanosleep", &Decoder::nothing},
                                                                        {"ldmatrix", &Decoder::load_matrix},
                                                                        {"mma", &Decoder::multiply},
                                                                        {"wgmma", &Decoder::warpgroup}};
  const std::string_view form = in.form;
  const std::string_view opcode = form.substr(0, form.find('.'));
  if (form.size() > 5 && form.substr(form.size() - 5) == ".pred" && opcode != "vote" && opcode != "bar" &&
      opcode != "barrier")
    return predicate_logic(in);
  const auto family = families.find(opcode);
  if (family == families.end()) return arithmetic(in);
  (this->*family->second)(in);
}

std::unique_ptr<Program> decode(const Module& module, const Entry& entry, const TensorCore& tensor_core) {
  return Decoder(module, entry, tensor_core).decode();
}

}  // namespace emulator
