// Operands: registers and constants become offsets, variables their addresses.
#include <cstring>

#include "emulator/exec/decode.hpp"

namespace emulator {

std::int32_t Decoder::constant(std::uint64_t value, bool wide) {
  const auto [it, is_new] = constants_.try_emplace({value, wide}, 0);
  if (!is_new) return it->second;
  const std::size_t row = program_->constants.size();
  program_->constants.resize(row + (wide ? 2 : 1));
  std::uint8_t* to = program_->constants[row].bytes;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (wide) {
      std::memcpy(to + 8 * i, &value, 8);
    } else {
      const auto low = static_cast<std::uint32_t>(value);
      std::memcpy(to + 4 * i, &low, 4);
    }
  }
  return it->second = static_cast<std::int32_t>(row * 128) | kConstant;
}

std::int64_t Decoder::symbol_value(const Instruction& in, const Operand& operand) const {
  const auto i = static_cast<std::size_t>(operand.symbol);
  if (variable_values_[i] < 0)
    fail(in, "the variable '" + body_.variables[i].name + "' is in a space that is not known here");
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(variable_values_[i]) +
                                   static_cast<std::uint64_t>(operand.value));
}

std::int64_t Decoder::immediate(const Instruction& in, const Operand& operand) const {
  if (operand.kind != Operand::Kind::integer) fail(in, "an operand must be a number");
  return operand.value;
}

std::int32_t Decoder::word(const Instruction& in, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::reg: {
      const RegisterType type = body_.registers[static_cast<std::size_t>(operand.reg)];
      if (type != RegisterType::bits16 && type != RegisterType::bits32) break;
      if (operand.negated) break;
      return slots_.of[static_cast<std::size_t>(operand.reg)] * 128;
    }
    case Operand::Kind::integer:
    case Operand::Kind::float32:
      return constant(static_cast<std::uint32_t>(operand.value), false);
    case Operand::Kind::symbol:
      return constant(static_cast<std::uint32_t>(symbol_value(in, operand)), false);
    default:
      break;
  }
  fail(in, "an operand is not of 16 or 32 bits");
}

std::int32_t Decoder::quad(const Instruction& in, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::reg:
      if (body_.registers[static_cast<std::size_t>(operand.reg)] != RegisterType::bits64 || operand.negated)
        break;
      return slots_.words * 128 + slots_.of[static_cast<std::size_t>(operand.reg)] * 256;
    case Operand::Kind::integer:
    case Operand::Kind::float64:
      return constant(static_cast<std::uint64_t>(operand.value), true);
    case Operand::Kind::symbol:
      return constant(static_cast<std::uint64_t>(symbol_value(in, operand)), true);
    default:
      break;
  }
  fail(in, "an operand is not of 64 bits");
}

std::int32_t Decoder::predicate(const Instruction& in, const Operand& operand) {
  if (operand.kind == Operand::Kind::integer) return operand.value != 0 ? 2 : 0;
  if (operand.kind != Operand::Kind::reg ||
      body_.registers[static_cast<std::size_t>(operand.reg)] != RegisterType::predicate)
    fail(in, "an operand is not a predicate");
  return (slots_.of[static_cast<std::size_t>(operand.reg)] + 2) * 2 + (operand.negated ? 1 : 0);
}

std::int32_t Decoder::by_kind(const Instruction& in, const Operand& operand, char kind) {
  return kind == 'q' ? quad(in, operand) : kind == 'p' ? predicate(in, operand) : word(in, operand);
}

std::int32_t Decoder::predicate_result(const Instruction& in, const Operand& operand) {
  if (operand.kind != Operand::Kind::reg || operand.negated) fail(in, "the result is not a predicate");
  if (operand.paired >= 0) fail(in, "two results are not known here");
  return predicate(in, operand) / 2;
}

std::int32_t Decoder::result(const Instruction& in, const Operand& operand, char kind) {
  if (operand.kind != Operand::Kind::reg || operand.negated) fail(in, "the result is not a register");
  if (operand.paired >= 0) fail(in, "two results are not known here");
  return kind == 'p' ? predicate_result(in, operand) : by_kind(in, operand, kind);
}

void Decoder::address_of(const Instruction& in, const Operand& operand, std::int32_t& base,
                         std::int64_t& offset, std::uint32_t& flags) {
  if (operand.kind != Operand::Kind::address) fail(in, "expected an address in brackets");
  offset = operand.value;
  base = 0;
  flags = 0;
  if (operand.symbol >= 0) {
    offset = symbol_value(in, operand);
    flags = kNoBase;
  } else if (operand.reg < 0) {
    flags = kNoBase;
  } else {
    Operand plain = operand;
    plain.kind = Operand::Kind::reg;
    if (body_.registers[static_cast<std::size_t>(operand.reg)] == RegisterType::bits32) {
      flags = kNarrowAddress;
      base = word(in, plain);
    } else {
      base = quad(in, plain);
    }
  }
}

void Decoder::address(const Instruction& in, const Operand& operand, Op& op) {
  std::uint32_t flags;
  address_of(in, operand, op.a, op.value, flags);
  op.y |= flags;
}

// Base and offset, as lists have them: a base of 64 bits, made if there is none.
void Decoder::wide_address(const Instruction& in, const Operand& operand, std::vector<std::int32_t>& list) {
  std::int32_t base;
  std::int64_t offset;
  std::uint32_t flags;
  address_of(in, operand, base, offset, flags);
  if ((flags & kNarrowAddress) != 0) fail(in, "a global address of 32 bits");
  if ((flags & kNoBase) != 0) base = constant(static_cast<std::uint64_t>(offset), true), offset = 0;
  if (offset != static_cast<std::int32_t>(offset)) fail(in, "an offset of more than 32 bits");
  list.push_back(base);
  list.push_back(static_cast<std::int32_t>(offset));
}
void Decoder::narrow_address(const Instruction& in, const Operand& operand, std::vector<std::int32_t>& list) {
  std::int32_t base;
  std::int64_t offset;
  std::uint32_t flags;
  address_of(in, operand, base, offset, flags);
  if (flags == 0) fail(in, "a shared address of 64 bits is not known here");
  if ((flags & kNoBase) != 0) base = constant(static_cast<std::uint32_t>(offset), false), offset = 0;
  if (offset != static_cast<std::int32_t>(offset)) fail(in, "an offset of more than 32 bits");
  list.push_back(base);
  list.push_back(static_cast<std::int32_t>(offset));
}

std::uint32_t Decoder::add_list(const std::vector<std::int32_t>& list) {
  const auto at = static_cast<std::uint32_t>(program_->lists.size());
  program_->lists.insert(program_->lists.end(), list.begin(), list.end());
  return at;
}

}  // namespace emulator
