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

void Decoder::multiply(const Instruction& in) {
  need_operands(in, 4, 4);
  std::uint32_t flags = 0;
  if (in.form == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") {
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
// add, scale A, scale B, transpose B.
void Decoder::warpgroup_product(const Instruction& in, Modifiers& form) {
  const bool aligned = form.take("sync") && form.take("aligned");
  const std::string_view shape = form.first();
  if (!aligned || shape.substr(0, 4) != "m64n" || shape.size() < 8 || shape.substr(shape.size() - 3) != "k16")
    unknown(in);
  unsigned columns = 0;
  for (const char c : shape.substr(4, shape.size() - 7))
    columns = columns < 1000 ? columns * 10 + static_cast<unsigned>(c - '0') : columns;
  if (columns < 8 || columns > 256 || columns % 8 != 0) unknown(in);
  form.take(shape);
  const bool f32 = form.take("f32");
  const bool bfloat = form.take("bf16") && form.take("bf16");
  const bool half = !bfloat && form.take("f16") && form.take("f16");
  if (!f32 || (!bfloat && !half) || !form.empty() || in.operands.size() < 2) unknown(in);
  const bool registers = in.operands[1].kind == Operand::Kind::list;
  need_operands(in, registers ? 7 : 8, registers ? 7 : 8);
  if (in.operands[0].parts.size() != columns / 2)
    fail(in, "has " + std::to_string(in.operands[0].parts.size()) + " results, not " +
                 std::to_string(columns / 2));
  std::vector<std::int32_t> rows;
  for (const Operand& part : in.operands[0].parts) rows.push_back(result(in, part, 'w'));
  Op op;
  op.run = handlers::product;
  op.instruction = instruction_;
  op.y = columns << 8 | (registers ? kFromRegisters : 0) | (bfloat ? kBfloat : 0);
  if (registers) {
    if (in.operands[1].parts.size() != 4) fail(in, "A has four registers");
    for (const Operand& part : in.operands[1].parts) rows.push_back(word(in, part));
  } else {
    op.a = quad(in, in.operands[1]);
    if (immediate(in, in.operands[6]) != 0) op.y |= kTransposedA;
  }
  op.b = quad(in, in.operands[2]);
  op.c = predicate(in, in.operands[3]);
  if (immediate(in, in.operands[4]) != 1 || immediate(in, in.operands[5]) != 1)
    fail(in, "operands that are negated are not known");
  if (immediate(in, in.operands[registers ? 6 : 7]) != 0) op.y |= kTransposedB;
  op.x = add_list(rows);
  program_->code.push_back(op);
}

}  // namespace emulator
