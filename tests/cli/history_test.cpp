// The rules of the regression gate and the leaderboard, with times made up to sit on their edges.
#include "cli/history.hpp"

#include <gtest/gtest.h>

#include "cli/common.hpp"

namespace tessera::cli {
namespace {

BenchRow row(const std::string& words, const std::string& kernel, double p50_us) {
  std::string error;
  BenchRow r;
  r.shape = *cases::parse(words, &error);
  r.kernel = kernel;
  r.verified = true;
  r.stats.p50_us = p50_us;
  return r;
}

const std::string kCase = "b1 h1 q8 k8 d8 f32";

TEST(Compare, FivePercentIsTheEdge) {
  const Json saved = bench_json({row(kCase, "a", 100)});
  EXPECT_FALSE(compare({row(kCase, "a", 104.9)}, saved, "f", 5)[0].regressed);
  EXPECT_TRUE(compare({row(kCase, "a", 105.1)}, saved, "f", 5)[0].regressed);
  EXPECT_FALSE(compare({row(kCase, "a", 50)}, saved, "f", 5)[0].regressed);
}

TEST(Compare, TheSameKernelComesFirstThenTheFastest) {
  const Json saved = bench_json({row(kCase, "slow", 300), row(kCase, "fast", 100)});
  EXPECT_EQ(compare({row(kCase, "slow", 1)}, saved, "f", 5)[0].before_us, 300);
  EXPECT_EQ(compare({row(kCase, "new", 1)}, saved, "f", 5)[0].before_us, 100);
  EXPECT_EQ(compare({row(kCase, "new", 1)}, saved, "f", 5)[0].baseline_kernel, "fast");
}

TEST(Compare, OtherCasesAndThreadCountsDoNotMatch) {
  const Json saved = bench_json({row(kCase, "a", 100)});
  EXPECT_FALSE(compare({row("b2 h1 q8 k8 d8 f32", "a", 1000)}, saved, "f", 5)[0].known);
  BenchRow other = row(kCase, "a", 1000);
  other.threads = 2;
  EXPECT_FALSE(compare({other}, saved, "f", 5)[0].known);
}

TEST(Compare, RowsOfAGpuMatchThatGpuOnly) {
  BenchRow gpu = row(kCase, "a", 10);
  gpu.device = "NVIDIA H200", gpu.threads = 0;
  BenchRow other = gpu;
  other.device = "NVIDIA L4";
  const Json saved = bench_json({row(kCase, "a", 100), gpu});
  EXPECT_EQ(compare({gpu}, saved, "f", 5)[0].before_us, 10);
  EXPECT_EQ(compare({row(kCase, "a", 1)}, saved, "f", 5)[0].before_us, 100);
  EXPECT_FALSE(compare({other}, saved, "f", 5)[0].known);
  Json old = bench_json({row(kCase, "a", 100)});
  old["results"][0].erase("device");  // a file from before GPUs
  EXPECT_TRUE(compare({row(kCase, "a", 1)}, old, "f", 5)[0].known);
}

TEST(Leaderboard, AGpuHasABoardOfItsOwn) {
  Json board = {{"cases", Json::object()}};
  BenchRow gpu = row(kCase, "fast", 10);
  gpu.device = "NVIDIA H200", gpu.threads = 0;
  EXPECT_TRUE(enter(board, {gpu})[0].entered);
  EXPECT_TRUE(enter(board, {row(kCase, "slow", 100)})[0].entered);
  EXPECT_EQ(leader(board, gpu.shape, 0, "NVIDIA H200"), "fast");
  EXPECT_EQ(leader(board, gpu.shape, 1), "slow");
  EXPECT_EQ(leader(board, gpu.shape, 0, "NVIDIA L4"), "");
}

TEST(Compare, UnverifiedRowsAreNotCompared) {
  BenchRow wrong = row(kCase, "a", 1000);
  wrong.verified = false;
  EXPECT_TRUE(compare({wrong}, bench_json({row(kCase, "a", 100)}), "f", 5).empty());
}

TEST(Compare, HostileFilesAreRefusedOrSkipped) {
  EXPECT_THROW((void)compare({}, Json::array(), "f", 5), Stop);
  EXPECT_THROW((void)compare({}, Json{{"results", 3}}, "f", 5), Stop);
  Json odd = bench_json({row(kCase, "a", 100)});
  odd["results"][0]["p50_us"] = "fast";
  odd["results"].push_back(7);
  EXPECT_FALSE(compare({row(kCase, "a", 100)}, odd, "f", 5)[0].known);
}

Json board_with(const std::string& kernel, double p50_us) {
  Json board = {{"cases", Json::object()}};
  enter(board, {row(kCase, kernel, p50_us)});
  return board;
}

TEST(Leaderboard, ThreePercentIsTheEdge) {
  Json board = board_with("old", 100);
  EXPECT_FALSE(enter(board, {row(kCase, "new", 97.1)})[0].entered);
  EXPECT_EQ(leader(board, row(kCase, "", 1).shape, 1), "old");
  EXPECT_TRUE(enter(board, {row(kCase, "new", 96.9)})[0].entered);
  EXPECT_EQ(leader(board, row(kCase, "", 1).shape, 1), "new");
}

TEST(Leaderboard, TheLeaderOfThisRunCountsNotItsOldTime) {
  Json board = board_with("old", 100);
  // Today everything is slower: against 100 µs the newcomer would lose, against the leader's 120 it wins.
  const auto outcome = enter(board, {row(kCase, "old", 120), row(kCase, "new", 110)});
  ASSERT_EQ(outcome.size(), 1u);
  EXPECT_TRUE(outcome[0].entered) << outcome[0].why;
  Json other = board_with("old", 100);
  // And the other way round: a fast day does not carry a newcomer past the leader.
  EXPECT_FALSE(enter(other, {row(kCase, "old", 81), row(kCase, "new", 80)})[0].entered);
}

TEST(Leaderboard, AKernelBeatsItsOwnRecordByTheSameRule) {
  Json board = board_with("same", 100);
  EXPECT_FALSE(enter(board, {row(kCase, "same", 98)})[0].entered);
  EXPECT_TRUE(enter(board, {row(kCase, "same", 90)})[0].entered);
}

TEST(Leaderboard, AWrongKernelNeverEnters) {
  Json board = {{"cases", Json::object()}};
  BenchRow wrong = row(kCase, "a", 1);
  wrong.verified = false;
  EXPECT_TRUE(enter(board, {wrong}).empty());
  EXPECT_TRUE(board["cases"].empty());
}

TEST(Leaderboard, ThreadCountsLeadSeparately) {
  Json board = board_with("one", 100);
  BenchRow two = row(kCase, "two", 200);
  two.threads = 2;
  EXPECT_TRUE(enter(board, {two})[0].entered);
  EXPECT_EQ(leader(board, two.shape, 1), "one");
  EXPECT_EQ(leader(board, two.shape, 2), "two");
}

}  // namespace
}  // namespace tessera::cli
