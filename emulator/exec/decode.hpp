// From instructions to operations. One function for each family of opcodes; a form that none knows is an
// error.
#pragma once

#include <map>
#include <utility>

#include "emulator/exec/handlers.hpp"
#include "emulator/exec/program.hpp"
#include "emulator/ir/flow.hpp"

namespace emulator {

// "ld.shared::cta.v2.b32" apart: the opcode, then modifiers that are taken away as they are understood.
class Modifiers {
 public:
  explicit Modifiers(std::string_view form);
  bool take(std::string_view modifier);
  // The one of these that is there, or nothing.
  std::string_view take_any(std::initializer_list<std::string_view> modifiers);
  bool empty() const { return rest_.empty(); }
  std::string_view first() const { return rest_.empty() ? std::string_view{} : rest_.front(); }
  std::string_view opcode;

 private:
  std::vector<std::string_view> rest_;
};

class Decoder {
 public:
  Decoder(const Module& module, const Entry& entry, const TensorCore& tensor_core);
  std::unique_ptr<Program> decode();

 private:
  // decode.cpp
  void lay_out_shared();
  void lay_out_registers();
  void one(const Instruction& in);
  void flow(const Instruction& in, const BasicBlock& block, bool guarded);
  void dispatch(const Instruction& in);
  bool reads_low_half(const Instruction& in, char kind);
  void arithmetic(const Instruction& in);
  void patch_targets();
  [[noreturn]] void fail(const Instruction& in, const std::string& sentence) const;
  [[noreturn]] void unknown(const Instruction& in) const;
  Op& emit(Handler run);
  void need_operands(const Instruction& in, std::size_t least, std::size_t most) const;

  // decode_written.cpp
  void choose_tracked();
  void track(int reg);
  void check_reads(const Instruction& in);
  void mark_writes(const Instruction& in);
  std::uint32_t tracked(const Operand& operand) const;

  // decode_operands.cpp
  std::int32_t word(const Instruction& in, const Operand& operand);  // 16 or 32 bits
  std::int32_t quad(const Instruction& in, const Operand& operand);  // 64 bits
  std::int32_t predicate(const Instruction& in, const Operand& operand);
  std::int32_t result(const Instruction& in, const Operand& operand, char kind);
  std::int32_t predicate_result(const Instruction& in, const Operand& operand);
  std::int32_t by_kind(const Instruction& in, const Operand& operand, char kind);
  std::int32_t constant(std::uint64_t value, bool wide);
  std::int64_t symbol_value(const Instruction& in, const Operand& operand) const;
  std::int64_t immediate(const Instruction& in, const Operand& operand) const;
  void address(const Instruction& in, const Operand& operand, Op& op);
  void address_of(const Instruction& in, const Operand& operand, std::int32_t& base, std::int64_t& offset,
                  std::uint32_t& flags);
  void wide_address(const Instruction& in, const Operand& operand, std::vector<std::int32_t>& list);
  void narrow_address(const Instruction& in, const Operand& operand, std::vector<std::int32_t>& list);
  std::uint32_t add_list(const std::vector<std::int32_t>& list);

  // decode_memory.cpp
  void load(const Instruction& in);
  void store(const Instruction& in);
  void access(const Instruction& in, bool is_store);
  void atomic(const Instruction& in);
  void window(const Instruction& in);
  void copy(const Instruction& in);
  void copy_bulk(const Instruction& in, Modifiers& form);
  void prefetch(const Instruction& in);
  void policy(const Instruction& in);

  // decode_warp.cpp
  void move(const Instruction& in);
  void predicate_logic(const Instruction& in);
  void odd_bits(const Instruction& in);
  void shuffle(const Instruction& in);
  void vote(const Instruction& in);
  void reduce(const Instruction& in);
  void barrier(const Instruction& in);
  void mbarrier(const Instruction& in);
  void nothing(const Instruction& in);

  // decode_matrix.cpp
  void load_matrix(const Instruction& in);
  void multiply(const Instruction& in);
  void warpgroup(const Instruction& in);
  void warpgroup_product(const Instruction& in, Modifiers& form);

  const Module& module_;
  const Entry& entry_;
  Body body_;
  std::vector<BasicBlock> blocks_;
  Slots slots_;
  std::int32_t low_half_ = 0;  // a register of the decoder's own
  std::unique_ptr<Program> program_;
  std::map<std::pair<std::uint64_t, bool>, std::int32_t> constants_;
  std::vector<std::int64_t> variable_values_;  // addresses in their spaces
  std::vector<int> tracked_;                   // by register; -1: not
  std::vector<std::int64_t> block_starts_;     // operations
  std::uint32_t instruction_ = 0;
  Effects effects_;
};

}  // namespace emulator
