// Reading PTX: what is there, and sentences for what is not PTX.
#include <gtest/gtest.h>

#include "emulator/ir/flow.hpp"
#include "emulator/ptx/error.hpp"
#include "emulator/ptx/module.hpp"

namespace emulator {
namespace {

constexpr std::string_view kText = R"(
.version 9.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry first(.param .u64 p0, .param .align 8 .b8 p1[24])
.maxntid 64, 2, 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .shared .align 4 .b8 fixed[16];
  .loc 1 7 3
  mov.u32 %r1, %tid.x;
  setp.lt.s32 %p1, %r1, -3;
  @%p1 bra $skip;
  { .reg .b32 t; again: mov.u32 t, 1; bra again; }
$skip:
  ret;
}
)";

TEST(Ptx, AnEntryIsReadWithItsParametersAndLimits) {
  const auto module = parse_module(kText, "a.ptx");
  ASSERT_EQ(module->entries.size(), 1u);
  const Entry& entry = module->entries[0];
  EXPECT_EQ(entry.name, "first");
  EXPECT_EQ(entry.param_bytes, 32u);
  EXPECT_EQ(entry.max_threads, 128);
  const Body body = parse_body(*module, entry);
  ASSERT_EQ(body.code.size(), 6u);
  EXPECT_EQ(body.code[0].line, 13);
  EXPECT_EQ(body.code[0].source_line, 7);
  EXPECT_EQ(body.code[1].operands[2].value, -3);
  EXPECT_EQ(body.code[2].operands[0].value, 5);
  EXPECT_EQ(body.code[4].operands[0].value, 3);
}

TEST(Ptx, WhatIsNotPtxGetsASentenceWithFileAndLine) {
  const auto sentence = [](std::string_view body) -> std::string {
    try {
      const auto module = parse_module(".version 9.0\n.entry e() {\n" + std::string(body) + "\n}", "b.ptx");
      parse_body(*module, module->entries.at(0));
    } catch (const PtxError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(sentence("bra nowhere;"), "b.ptx:3: 'nowhere' is neither declared nor a label");
  EXPECT_EQ(sentence(".reg .b128 %q<2>;"), "b.ptx:3: registers of type '.b128' are not known");
  EXPECT_NE(sentence("mov.u32 %r1").find("b.ptx:"), std::string::npos);
  EXPECT_NE(sentence("{").find("never closed"), std::string::npos);
  EXPECT_EQ(sentence("mov.u32 %tid.x, 0fZZ;").substr(0, 8), "b.ptx:3:");
}

TEST(Ptx, LanesMeetAgainAtTheImmediatePostDominator) {
  const auto module = parse_module(R"(.entry e() { .reg .pred p; .reg .b32 r;
    @p bra else; mov.u32 r, 1; bra join; else: mov.u32 r, 2; join: mov.u32 r, 3; ret; })",
                                   "c.ptx");
  const Body body = parse_body(*module, module->entries[0]);
  const auto blocks = find_blocks(body, "c.ptx");
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[0].meets_at, 3);
  EXPECT_EQ(blocks[3].meets_at, -1);
}

TEST(Ptx, RegistersThatAreNeverAliveTogetherShareASlot) {
  const auto module = parse_module(R"(.entry e() { .reg .b32 %r<5>;
    mov.u32 %r1, 1; add.s32 %r2, %r1, 1; add.s32 %r3, %r2, 1; add.s32 %r4, %r3, %r1; ret; })",
                                   "d.ptx");
  const Body body = parse_body(*module, module->entries[0]);
  const Slots slots = allocate_slots(body, find_blocks(body, "d.ptx"));
  EXPECT_EQ(slots.words, 2);
  EXPECT_EQ(slots.of[1], slots.of[2]);
}

}  // namespace
}  // namespace emulator
