// The multiply-add probe beside the same instructions written by hand, loop and all, which no compiler
// touches. A probe whose ten chains were merged into one would claim 1.25 times what a core with AVX2 can do,
// with AVX-512 up to 2.5.
#include "cli/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace tessera::cli {
namespace {

#if defined(__x86_64__)

constexpr std::int64_t kRounds = 20000;

// Twelve chains of zeros in registers of our own choice. Returns the operations done, as the probe does.
#define TESSERA_BY_HAND(v)                                                                             \
  asm volatile(                                                                                        \
      "vzeroall\n1:\n\t"                                                                               \
      ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n\t"                                               \
      "vfmadd213ps %%" v "15, %%" v "14, %%" v                                                         \
      "\\n\n\t"                                                                                        \
      ".endr\n\t"                                                                                      \
      "dec %0\n\tjnz 1b"                                                                               \
      : "+r"(left)                                                                                     \
      :                                                                                                \
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
        "xmm11", "xmm14", "xmm15")

double by_hand_avx2(std::int64_t rounds) {
  std::int64_t left = rounds;
  TESSERA_BY_HAND("ymm");
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

double by_hand_avx512(std::int64_t rounds) {
  std::int64_t left = rounds;
  TESSERA_BY_HAND("zmm");
  return static_cast<double>(rounds) * 12 * 16 * 2;
}

double rate(double (*work)(std::int64_t)) {
  const auto begin = std::chrono::steady_clock::now();
  const double done = work(kRounds);
  return done / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Probe, MultipliesAsFastAsTheInstructionsDo) {
  const bool wide = probe().name == "AVX-512";
  if (!wide && probe().name != "AVX2 + FMA")
    GTEST_SKIP() << "skipped: the loop written by hand is for AVX2 and AVX-512, not for " << probe().name;
  // The best of many short turns: on a busy machine some are undisturbed, and the two alternate, so that a
  // change of clock meets both.
  double probed = 0, by_hand = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    probed = std::max(probed, rate(probe().multiply_add));
    by_hand = std::max(by_hand, rate(wide ? by_hand_avx512 : by_hand_avx2));
  }
  EXPECT_LT(probed / by_hand, 1.1) << probed / 1e9 << " against " << by_hand / 1e9 << " GFLOP/s";
  EXPECT_GT(probed / by_hand, 0.85) << probed / 1e9 << " against " << by_hand / 1e9 << " GFLOP/s";
}

#endif

TEST(Probe, ReadsEveryByteOnceInAnyNumberOfStreams) {
  constexpr std::size_t kBytes = 4 * 4096;
  alignas(64) static unsigned char data[kBytes];
  for (const int streams : {1, 4}) {
    for (std::size_t i = 0; i < kBytes; ++i) data[i] = static_cast<unsigned char>(i * 7 + i / 256);
    const std::uint64_t before = probe().read(data, kBytes, streams);
    for (const std::size_t at : {std::size_t{0}, kBytes / 4 - 1, kBytes / 2, kBytes - 1}) {
      data[at] ^= 1;
      EXPECT_NE(probe().read(data, kBytes, streams), before)
          << "byte " << at << " of " << streams << " streams";
      data[at] ^= 1;
    }
  }
}

}  // namespace
}  // namespace tessera::cli
