// What is asynchronous completes late, at once, or at random, and warps run in any order: seeds decide.
#include <gtest/gtest.h>

#include <set>

#include "emulator/tests/snippet.hpp"

namespace emulator {
namespace {

constexpr std::uint64_t kSeeds = 32;

// One thread copies 16 bytes of the output's first half to shared memory and back to its second half.
std::string bulk_copy(const std::string& wait) {
  return "mbarrier.init.shared::cta.b64 [shared+64], 1; fence.mbarrier_init.release.cluster;\n"
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared+64], 16; mov.u32 %r9, shared;\n"
         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd1], 16, "
         "[shared+64];\n" +
         wait + "\nld.shared.u32 %r1, [shared+4]; st.global.u32 [%rd1+16], %r1;";
}
const std::string kWait =
    "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [shared+64], 0; @%p1 bra on; bra again; on:";

TEST(Async, ABulkCopyThatNothingWaitsForIsLateUnderSomeSeeds) {
  int early = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Snippet s(bulk_copy(""), 90, seed);
    const std::string text = s.report(1, 64, 128);
    early += text.find("read too early") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(early, 0);
}
TEST(Async, ABulkCopyThatIsWaitedForIsThere) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Snippet s(bulk_copy(kWait), 90, seed);
    ASSERT_EQ(s.run(1, 1, 8, 128, {5, 6, 7, 8})[4], 6u) << seed;
  }
}
TEST(Async, ACopyThatOutlivesItsBlockIsReported) {
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Snippet s(
        "mbarrier.init.shared::cta.b64 [shared+64], 1; mov.u32 %r9, shared;\nmbarrier.arrive.expect_tx."
        "shared::cta.b64 _, [shared+64], 16;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx"
        "::bytes [%r9], [%rd1], 16, [shared+64];",
        90, seed);
    found.insert(s.report(1, 64, 128).substr(0, 11));
  }
  EXPECT_EQ(found.count("leaked copy"), 1u);
}
TEST(Async, BytesThatNeverComeAreReported) {
  Snippet s(
      "mbarrier.init.shared::cta.b64 [shared], 2;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [shared], "
      "16;");
  const std::string text = s.report(1, 64, 128);
  EXPECT_NE(
      text.find(
          "mbarrier misuse: the block ends while the mbarrier at shared address 1024 is 16 bytes short"),
      std::string::npos)
      << text;
}

// A group that is waited for is there, the next one need not be.
TEST(Async, GroupsAreWaitedForOneByOne) {
  int early = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string copies =
        "mov.u32 %r9, shared; cp.async.ca.shared.global [%r9], [%rd1], 4; cp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r9+4], [%rd1+4], 4; cp.async.commit_group;\ncp.async.wait_group 1;\n";
    const std::string end = " st.global.u32 [%rd1+8], %r1; cp.async.wait_group 0;";
    Snippet first(copies + "ld.shared.u32 %r1, [shared];" + end, 90, seed);
    ASSERT_EQ(first.run(1, 1, 4, 64, {5, 6})[2], 5u) << seed;
    Snippet second(copies + "ld.shared.u32 %r1, [shared+4];" + end, 90, seed);
    early += second.report(1, 64, 64).find("read too early") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(early, 0);
}

// D = A B of ones, 16 deep: 16 in every element, as soon as it is there.
std::string product(const std::string& wait) {
  return "mov.u32 %r1, %tid.x; mul.lo.s32 %r2, %r1, 16; mov.u32 %r3, shared; add.s32 %r4, %r3, %r2; mov.u32 "
         "%r5, "
         "1006648320;\nst.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5}; st.shared.v4.u32 [%r4+2048], {%r5, %r5, "
         "%r5, "
         "%r5}; fence.proxy.async.shared::cta; bar.sync 0;\nshr.u32 %r6, %r3, 4; cvt.u64.u32 %rd5, %r6; "
         "or.b64 %rd5, "
         "%rd5, 68719476736; or.b64 %rd5, %rd5, 524288; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 "
         "%f3, %f1; "
         "mov.f32 %f4, %f1; wgmma.fence.sync.aligned;\n"
         "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd5, 1, 1, 1, 0, 0; "
         "wgmma.commit_group.sync.aligned;\n" +
         wait +
         "\nmul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.f32 [%rd3], %f3;\n"
         "wgmma.wait_group.sync.aligned 0;";
}
TEST(Async, ProductsThatAreNotWaitedForAreLate) {
  int stale = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Snippet waits(product("wgmma.wait_group.sync.aligned 0;"), 90, seed);
    for (const std::uint32_t x : waits.run(1, 128, 128, 4096)) ASSERT_EQ(x, 0x41800000u) << seed;
    Snippet forgets(product(""), 90, seed);
    for (const std::uint32_t x : forgets.run(1, 128, 128, 4096)) stale += x == 0 ? 1 : 0;
  }
  EXPECT_GT(stale, 0);
}
TEST(Async, AProductThatOutlivesItsWarpIsReported) {
  std::string body = product("");
  body.resize(body.rfind("wgmma.wait_group"));
  int leaked = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Snippet s(body, 90, seed);
    leaked += s.report(128, 128, 4096).find("leaked group") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(leaked, 0);
}

// Four warps take tickets: their order is the seed's.
TEST(Order, SeedsDecideWhichWarpIsFirst) {
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<std::uint32_t> first;
    for (int again = 0; again < 2; ++again) {
      Snippet s(
          "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; setp.ne.s32 %p1, %r3, 0; @%p1 bra "
          "end;\n"
          "atom.global.relaxed.gpu.add.s32 %r4, [%rd1], 1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, "
          "%rd2;\n"
          "st.global.u32 [%rd3+4], %r2;\nend:",
          90, seed);
      const auto out = s.run(1, 128, 8);
      ASSERT_EQ(out[0], 4u);
      if (again == 0) first = out;
      ASSERT_EQ(out, first) << "the same seed, another order";
    }
    orders.insert(first);
  }
  EXPECT_GT(orders.size(), 4u);
}

}  // namespace
}  // namespace emulator
