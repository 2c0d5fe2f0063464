// Every check has a snippet that it must find, with line, thread and address.
#include <gtest/gtest.h>

#include "emulator/tests/snippet.hpp"

namespace emulator {
namespace {

void expect_report(Snippet& s, unsigned threads, const std::string& what, int line, const std::string& who,
                   std::size_t shared = 0) {
  const std::string text = s.report(threads, 64, shared);
  EXPECT_NE(text.find(what), std::string::npos) << text;
  EXPECT_NE(text.find("snippet.ptx:" + std::to_string(kSnippetLine + line) + "\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find(who), std::string::npos) << text;
}

const std::string kThread =
    "mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; mul.lo.s32 %r9, %r1, 4; "
    "add.s32 %r9, %r9, 1024;\n";

TEST(Check, GlobalLoadBehindTheEnd) {
  Snippet s(kThread + "add.s64 %rd3, %rd3, 132;\nld.global.u32 %r2, [%rd3];");
  expect_report(s, 32,
                "out of bounds: a load of 4 bytes, 0 bytes behind the end of an allocation of 256 bytes", 2,
                "thread 31");
}
TEST(Check, GlobalStoreBeforeTheStart) {
  Snippet s(kThread + "st.global.u32 [%rd3+-4], %r1;");
  expect_report(s, 32, "out of bounds: a store of 4 bytes, 4 bytes before", 1, "thread 0");
}
TEST(Check, MisalignedGlobal) {
  Snippet s(kThread + "ld.global.v2.u32 {%r2, %r3}, [%rd3];");
  expect_report(s, 32, "misaligned: a load of 8 bytes in global memory", 1, "thread 1");
}
TEST(Check, UninitialisedGlobal) {
  Snippet s(kThread + "ld.global.u32 %r2, [%rd3];");
  s.leave_unwritten = true;
  expect_report(s, 32, "uninitialised global memory", 1, "thread 0");
}
TEST(Check, SharedOutOfBounds) {
  Snippet s(kThread + "st.shared.u32 [%r9], %r1;");
  expect_report(s, 64, "out of bounds: a store of 4 bytes at shared address 1152", 1, "threads 32-63", 128);
}
TEST(Check, MisalignedShared) {
  Snippet s(kThread + "st.shared.u16 [%r9+1], %rs1;");
  const std::string text = s.report(32, 64, 256);
  EXPECT_NE(text.find("uninitialised register"), std::string::npos) << text;
  Snippet t(kThread + "mov.u16 %rs1, 3; st.shared.u16 [%r9+1], %rs1;");
  expect_report(t, 32, "misaligned: a store of 2 bytes at shared address 1025", 1, "threads 0-31", 256);
}
TEST(Check, UninitialisedShared) {
  Snippet s(
      kThread +
      "setp.lt.u32 %p1, %r1, 7; @%p1 bra skip; st.shared.u32 [%r9], %r1; skip:\nld.shared.u32 %r2, [%r9];");
  expect_report(s, 32, "uninitialised shared memory: a load of 4 bytes", 2, "thread 0", 128);
}
TEST(Check, UninitialisedRegister) {
  Snippet s(kThread + "setp.lt.u32 %p1, %r1, 30; @%p1 bra skip; mov.u32 %r2, 5; skip:\nadd.s32 %r3, %r2, 1;");
  expect_report(s, 32, "uninitialised register", 2, "threads 0-29");
}
// Set in one lane a round, copied in all: no lane of it is read before it was set.
TEST(Check, CopiesOfUninitialisedRegistersAreNotReads) {
  const std::string rounds =
      "mov.u32 %r5, 0; loop: setp.eq.u32 %p1, %r5, %r1; selp.b32 %r2, %r5, %r2, %p1; mov.b32 %r3, %r2; "
      "add.s32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, ";
  Snippet s(kThread + rounds + "32; @%p2 bra loop;\nst.global.u32 [%rd3], %r3;");
  const auto out = s.run(1, 32, 32);
  for (unsigned lane = 0; lane < 32; ++lane) EXPECT_EQ(out[lane], lane);
  Snippet t(kThread + rounds + "30; @%p2 bra loop;\nst.global.u32 [%rd3], %r3;");
  expect_report(t, 32, "uninitialised register", 2, "threads 30-31");
}
TEST(Check, DivergentBarrier) {
  Snippet s(kThread + "setp.lt.u32 %p1, %r1, 8; @%p1 bra skip;\nbar.sync 0;\nskip:");
  expect_report(s, 32, "divergent barrier", 2, "threads 0-7");
}
TEST(Check, DivergentShuffle) {
  Snippet s(kThread +
            "setp.lt.u32 %p1, %r1, 8; @%p1 bra skip;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nskip:");
  expect_report(s, 32, "divergent .sync", 2, "threads 0-7");
}
TEST(Check, DeadlockSaysWhoWaits) {
  Snippet s(kThread + "setp.lt.u32 %p1, %r1, 32; @%p1 bra skip;\nbarrier.cta.sync 3, 64;\nskip:");
  expect_report(s, 64,
                "deadlock: warp 0 has ended; warp 1 waits at line " + std::to_string(kSnippetLine + 2) +
                    " at barrier 3, where 32 of 64 threads are",
                2, "threads 32-63");
}
TEST(Check, MbarrierThatNobodyCompletes) {
  Snippet s(
      "mbarrier.init.shared::cta.b64 [shared], 32;\nagain: mbarrier.try_wait.parity.shared::cta.b64 %p1, "
      "[shared], 0; @%p1 bra on; bra again; on:");
  expect_report(s, 1,
                "for parity 0 of the mbarrier at shared address 1024, which lacks 32 arrivals and 0 bytes", 1,
                "thread 0", 64);
}
TEST(Check, MbarrierMisuse) {
  Snippet s("mbarrier.arrive.shared::cta.b64 _, [shared];");
  expect_report(s, 1, "mbarrier misuse: an arrival on shared address 1024, where no mbarrier was initialised",
                0, "thread 0", 64);
  Snippet t("mbarrier.init.shared::cta.b64 [shared], 1;\nst.shared.u32 [shared+4], 1;");
  expect_report(t, 1, "mbarrier misuse: a plain store", 1, "thread 0", 64);
  Snippet u("mbarrier.init.shared::cta.b64 [shared], 1;\nmbarrier.init.shared::cta.b64 [shared], 1;");
  expect_report(u, 1, "mbarrier misuse: initialised while it is in use", 1, "thread 0", 64);
}
TEST(Check, CopyReadTooEarly) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Snippet s(
        kThread +
            "cp.async.ca.shared.global [%r9], [%rd3], 4; cp.async.commit_group;\nld.shared.u32 %r2, [%r9];",
        90, seed);
    expect_report(s, 32, "read too early", 2, "thread 0", 128);
  }
}
TEST(Check, LeakedGroup) {
  Snippet s(kThread + "cp.async.ca.shared.global [%r9], [%rd3], 4; cp.async.commit_group;");
  expect_report(s, 32, "leaked group", 1, "threads 0-31", 128);
}
TEST(Check, LocalOutOfBounds) {
  Snippet s(".local .align 4 .b8 here[8]; mov.u32 %r1, 5;\nst.local.u32 [here+8], %r1;");
  expect_report(s, 1, "out of bounds: a store of 4 bytes in local memory", 1, "thread 0");
  Snippet u(".local .align 4 .b8 here[8];\nld.local.u32 %r1, [here];");
  expect_report(u, 1, "uninitialised memory: a load of 4 bytes", 1, "thread 0");
}
TEST(Check, ParametersOutOfBounds) {
  Snippet s("\nld.param.u32 %r1, [out+8];");
  expect_report(s, 1, "out of bounds: a load of 4 bytes from the parameters, which have 8 bytes", 1,
                "thread 0");
}
TEST(Check, TheAddressIsTold) {
  Snippet s(kThread + "st.shared.u32 [%r9+2], %r1;");
  const std::string text = s.report(32, 64, 256);
  EXPECT_NE(text.find("\n  address 0x402"), std::string::npos) << text;
  EXPECT_EQ(s.reports.at(0).address, 1026u);
}
TEST(Check, MbarrierCounts) {
  const std::string init = "mbarrier.init.shared::cta.b64 [shared], 1;\n";
  Snippet s(init + "mbarrier.arrive.shared::cta.b64 _, [shared], 2;");
  expect_report(s, 1, "mbarrier misuse: 2 arrivals where the phase waits for 1", 1, "thread 0", 64);
  Snippet t(init + "mbarrier.test_wait.parity.shared::cta.b64 %p1, [shared], 2;");
  expect_report(t, 1, "mbarrier misuse: a parity of 2", 1, "thread 0", 64);
  Snippet u("\nmbarrier.init.shared::cta.b64 [shared+4], 1;");
  expect_report(u, 1, "misaligned: an mbarrier at shared address 1028", 1, "thread 0", 64);
  Snippet v("\nmbarrier.init.shared::cta.b64 [shared+64], 1;");
  expect_report(v, 1, "out of bounds: an mbarrier at shared address 1088", 1, "thread 0", 64);
}
TEST(Check, ProductOutsideSharedMemory) {
  Snippet s(
      "mov.u64 %rd5, 4611686293305295360;\nmov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; "
      "mov.f32 %f4, %f1;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, "
      "%rd5, %rd5, 1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
  expect_report(s, 128, "out of bounds: a product reads shared address", 2, "threads ", 64);
}
TEST(Check, BarriersThatDoNotExist) {
  Snippet s("mov.u32 %r1, 16;\nbarrier.cta.sync %r1, 32;");
  expect_report(s, 32, "barrier 16: there are 0 to 15", 1, "threads 0-31");
}
TEST(Check, ALaneThatIsNotThere) {
  Snippet s(kThread +
            "setp.lt.u32 %p1, %r1, 16; @!%p1 bra skip;\nshfl.sync.idx.b32 %r2, %r1, 20, 31, 65535;\nskip:");
  expect_report(s, 32, "shfl reads a lane that does not take part", 2, "thread 0");
}
TEST(Check, WhatIsNotKnownIsAnErrorWithItsForm) {
  Snippet s("dp4a.u32.u32 %r1, %r2, %r3, %r4;");
  EXPECT_EQ(s.report(32).substr(0, 75),
            "snippet.ptx:10: 'dp4a.u32.u32': this form is not known to the emulator\n  ke");
}

}  // namespace
}  // namespace emulator
