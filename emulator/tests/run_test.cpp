// Snippets of PTX that run.
#include <gtest/gtest.h>

#include "emulator/tests/snippet.hpp"

namespace emulator {
namespace {

TEST(Run, EveryThreadKnowsItsPlace) {
  Snippet s(
      R"(mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r4;)");
  const auto out = s.run(4, 64, 256);
  for (unsigned i = 0; i < 256; ++i) ASSERT_EQ(out[i], i);
}

TEST(Run, LanesPartAndMeetAgain) {
  Snippet s(R"(mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r5, 0;
    loop: add.s32 %r2, %r2, %r5; add.s32 %r5, %r5, 1; setp.le.u32 %p1, %r5, %r1; @%p1 bra loop;
    bar.warp.sync -1; shfl.sync.idx.b32 %r3|%p2, %r2, 31, 31, -1; add.s32 %r2, %r2, %r3;
    mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2;)");
  const auto out = s.run(1, 32, 32);
  for (unsigned i = 0; i < 32; ++i) ASSERT_EQ(out[i], i * (i + 1) / 2 + 31 * 32 / 2);
}

// What a compiler writes for static_cast<int>(a 64-bit number) * another.
TEST(Run, AConversionReadsTheLowPartOfAWiderRegister) {
  Snippet s(R"(mov.u64 %rd2, 0x1234567890abcdef; cvt.s64.s32 %rd3, %rd2; st.global.u64 [%rd1], %rd3;
    cvt.u64.u32 %rd4, %rd2; st.global.u64 [%rd1+8], %rd4; cvt.s32.s16 %r1, %rd2; st.global.u32 [%rd1+16], %r1;)");
  const auto out = s.run(1, 1, 5);
  EXPECT_EQ(out, (std::vector<std::uint32_t>{0x90abcdef, 0xffffffff, 0x90abcdef, 0, 0xffffcdef}));
}

}  // namespace
}  // namespace emulator
