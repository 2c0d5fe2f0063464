// ldmatrix, mma.sync, wgmma.
#include "emulator/exec/decode.hpp"

namespace emulator {

void Decoder::load_matrix(const Instruction& in) {
  need_operands(in, 2, 2);
  Modifiers form(in.form);
  const bool known = form.take("sync") && form.take("aligned") && form.take("m8n8");
  const unsigned count = form.take("x4") ? 4 : form.take("x2") ? 2 : form.take("x1") ? 1 : 0;
  const bool transposed = form.take("trans");
  const bool shared = form.take("shared") || form.take("shared::cta");
  if (!known || count == 0 || !shared || !form.take("b16") || !form.empty()) unknown(in);
  const std::vector<Operand> parts = in.operands[0].kind == Operand::Kind::list
                                         ? in.operands[0].parts
                                         : std::vector<Operand>{in.operands[0]};
  if (parts.size() != count) fail(in, "as many registers as matrices, or not");
  std::vector<std::int32_t> rows;
  for (const Operand& part : parts) rows.push_back(result(in, part, 'w'));
  Op op;
  op.run = handlers::load_matrix;
  op.instruction = instruction_;
  std::uint32_t flags;
  address_of(in, in.operands[1], op.a, op.value, flags);
  op.c = flags == kNarrowAddress ? 1 : flags == kNoBase ? 2 : 0;
  op.x = add_list(rows);
  op.y = count | (transposed ? kTransposedA : 0);
  program_->code.push_back(op);
}

namespace {
// e4m3 or e5m2, each of the two operands. 0: neither.
std::uint32_t take_kinds_8(Modifiers& form) {
  const std::string_view a = form.first();
  if ((a != "e4m3" && a != "e5m2") || !form.take(a)) return 0;
  const std::string_view b = form.first();
  if ((b != "e4m3" && b != "e5m2") || !form.take(b)) return 0;
  return kEightBits | (a == "e5m2" ? kE5m2A : 0) | (b == "e5m2" ? kE5m2B : 0);
}
// Of mma.sync.
std::uint32_t flags_of_8(std::string_view form) {
  constexpr std::string_view kStart = "mma.sync.aligned.m16n8k32.row.col.f32.";
  if (form.substr(0, kStart.size()) != kStart) return 0;
  Modifiers rest(form.substr(kStart.size() - 1));
  const std::uint32_t flags = take_kinds_8(rest);
  return rest.take("f32") && rest.empty() ? flags : 0;
}
}  // namespace

void Decoder::multiply(const Instruction& in) {
  need_operands(in, 4, 4);
  std::uint32_t flags = flags_of_8(in.form);
  if (flags != 0) {
    if (program_->tensor_core.chunk_8 == 0) fail(in, "8-bit floats need sm_89 or newer");
  } else if (in.form == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") {
    flags = kBfloat;
  } else if (in.form == "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16") {
    flags = kHalfResults;
  } else if (in.form != "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") {
    unknown(in);
  }
  const std::size_t results = flags == kHalfResults ? 2 : 4;
  const std::size_t sizes[4] = {results, 4, 2, results};
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < 4; ++i) {
    if (in.operands[i].parts.size() != sizes[i])
      fail(in, "a matrix has " + std::to_string(in.operands[i].parts.size()) + " registers, not " +
                   std::to_string(sizes[i]));
    for (const Operand& part : in.operands[i].parts)
      rows.push_back(i == 0 ? result(in, part, 'w') : word(in, part));
  }
  const std::uint32_t list = add_list(rows);
  Op& op = emit(handlers::multiply);
  op.x = list;
  op.y = flags;
}

void Decoder::warpgroup(const Instruction& in) {
  Modifiers form(in.form);
  if (form.take("mma_async")) return warpgroup_product(in, form);
  const std::string_view what = form.take_any({"fence", "commit_group", "wait_group"});
  if (what.empty() || !form.take("sync") || !form.take("aligned") || !form.empty()) unknown(in);
  if (what == "fence") {
    emit(handlers::whole_warp);
  } else if (what == "commit_group") {
    emit(handlers::product_commit);
  } else {
    need_operands(in, 1, 1);
    const std::int64_t pending = immediate(in, in.operands[0]);
    if (pending < 0 || pending > 7) fail(in, "0 to 7 groups may stay in flight");
    emit(handlers::product_wait).value = pending;
  }
}

// D, A descriptor, B descriptor, add, scale A, scale B, transpose A, transpose B; or D, {A}, B descriptor,
// add, scale A, scale B, transpose B. 8-bit elements are never transposed, and have no operands that say so.
void Decoder::warpgroup_product(const Instruction& in, Modifiers& form) {
  const bool aligned = form.take("sync") && form.take("aligned");
  const std::string_view shape = form.first();
  if (!aligned || shape.substr(0, 4) != "m64n" || shape.size() < 8) unknown(in);
  const std::string_view depth = shape.substr(shape.size() - 3);
  unsigned columns = 0;
  for (const char c : shape.substr(4, shape.size() - 7))
    columns = columns < 1000 ? columns * 10 + static_cast<unsigned>(c - '0') : columns;
  if (columns < 8 || columns > 256 || columns % 8 != 0) unknown(in);
  form.take(shape);
  const bool f32 = form.take("f32");
  const bool bfloat = form.take("bf16") && form.take("bf16");
  const bool half = !bfloat && form.take("f16") && form.take("f16");
  const std::uint32_t eight = bfloat || half ? 0 : take_kinds_8(form);
  if (!f32 || (!bfloat && !half && eight == 0) || !form.empty() || in.operands.size() < 2 ||
      depth != (eight != 0 ? "k32" : "k16"))
    unknown(in);
  const bool registers = in.operands[1].kind == Operand::Kind::list;
  const std::size_t operands = eight != 0 ? 6 : registers ? 7 : 8;
  need_operands(in, operands, operands);
  if (in.operands[0].parts.size() != columns / 2)
    fail(in, "has " + std::to_string(in.operands[0].parts.size()) + " results, not " +
                 std::to_string(columns / 2));
  std::vector<std::int32_t> rows;
  for (const Operand& part : in.operands[0].parts) rows.push_back(result(in, part, 'w'));
  Op op;
  op.run = handlers::product;
  op.instruction = instruction_;
  op.y = columns << 8 | (registers ? kFromRegisters : 0) | (bfloat ? kBfloat : 0) | eight;
  if (registers) {
    if (in.operands[1].parts.size() != 4) fail(in, "A has four registers");
    for (const Operand& part : in.operands[1].parts) rows.push_back(word(in, part));
  } else {
    op.a = quad(in, in.operands[1]);
    if (eight == 0 && immediate(in, in.operands[6]) != 0) op.y |= kTransposedA;
  }
  op.b = quad(in, in.operands[2]);
  op.c = predicate(in, in.operands[3]);
  if (immediate(in, in.operands[4]) != 1 || immediate(in, in.operands[5]) != 1)
    fail(in, "operands that are negated are not known");
  if (eight == 0 && immediate(in, in.operands.back()) != 0) op.y |= kTransposedB;
  op.x = add_list(rows);
  program_->code.push_back(op);
}

}  // namespace emulator
