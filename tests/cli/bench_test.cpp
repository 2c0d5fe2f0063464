// `tessera bench`: verified before timed, saved, compared, entered.
#include <fmt/format.h>

#include "run.hpp"

namespace tessera::cli_tests {
namespace {

const std::string kFast = "bench 'b1 h2 q32 k32 d16 f32' --min-time 0.01 --threads 1 ";

TEST(Bench, TimesAndReportsEverything) {
  const Outcome outcome = run(kFast + "--json");
  EXPECT_CODE(outcome, 0);
  const auto json = outcome.json();
  for (const char* key : {"date", "commit", "compiler", "command", "machine"})
    EXPECT_TRUE(json.contains(key)) << key;
  ASSERT_EQ(json["results"].size(), 1u);
  const auto row = json["results"][0];
  EXPECT_TRUE(row["verified"].get<bool>());
  EXPECT_EQ(row["verification"], "every row");
  EXPECT_GE(row["samples"].get<int>(), 5);
  const double p50 = row["p50_us"].get<double>();
  EXPECT_GT(p50, 0);
  EXPECT_LE(row["min_us"].get<double>(), p50);
  EXPECT_LE(p50, row["p90_us"].get<double>());
  EXPECT_LE(row["p90_us"].get<double>(), row["p99_us"].get<double>());
  EXPECT_NEAR(row["gflops_per_s"].get<double>(), row["flops"].get<double>() / p50 / 1e3, 1e-6);
  EXPECT_NEAR(row["floor_percent"].get<double>(), row["floor_us"].get<double>() / p50 * 100, 1e-6);

  const Outcome text = run(kFast);
  EXPECT_CODE(text, 0);
  for (const char* piece :
       {"p50", "p90", "p99", "mean", "std", "GFLOP/s", "GB/s", "of floor", "Verified before timing"})
    EXPECT_TRUE(text.says(piece)) << piece;
  EXPECT_FALSE(has_escape_codes(text.out + text.err));
}

TEST(Bench, AllKernelsAreTimedTogether) {
  const auto all = run(kFast + "--kernel all --json").json();
  const auto one = run(kFast + "--kernel cpu_scalar --json").json();
  EXPECT_GE(all["results"].size(), one["results"].size());
  ASSERT_EQ(one["results"].size(), 1u);
  EXPECT_EQ(one["results"][0]["kernel"], "cpu_scalar");
  EXPECT_EQ(one["results"][0]["chosen_by"], "name");
}

TEST(Bench, WhatFailedVerificationIsNotTimed) {
  const Outcome refused = run_faulty(kFast + "--kernel cpu_faulty");
  EXPECT_CODE(refused, 1);
  EXPECT_TRUE(refused.says("not timed")) << refused.out;
  EXPECT_TRUE(refused.says("tessera verify")) << "how to see it again";
  const auto row = run_faulty(kFast + "--kernel cpu_faulty --json").json()["results"][0];
  EXPECT_FALSE(row["verified"].get<bool>());
  EXPECT_FALSE(row.contains("p50_us"));
}

// Times from a saved file, scaled; the machine cannot be a hundred times faster or slower a second later.
std::string doctored(const ScratchFile& saved, double factor) {
  nlohmann::json json = saved.json();
  for (auto& row : json["results"]) row["p50_us"] = row["p50_us"].get<double>() * factor;
  return json.dump();
}

TEST(Bench, TheRegressionGateWorksInBothDirections) {
  const ScratchFile saved("saved.json"), file("doctored.json");
  EXPECT_CODE(run(kFast + "--save " + saved.path()), 0);
  ASSERT_TRUE(saved.json().contains("results"));

  file.write(doctored(saved, 0.01));
  const Outcome slower = run(kFast + "--against " + file.path());
  EXPECT_CODE(slower, 1);
  EXPECT_TRUE(slower.says("REGRESSION")) << slower.out;
  EXPECT_TRUE(run(kFast + "--json --against " + file.path()).json()["regressed"].get<bool>());
  EXPECT_CODE(run(kFast + "--tolerance 10000000 --against " + file.path()), 0);

  file.write(doctored(saved, 100));
  const Outcome faster = run(kFast + "--against " + file.path());
  EXPECT_CODE(faster, 0);
  EXPECT_TRUE(faster.says("no regression")) << faster.out;
  EXPECT_TRUE(faster.says("faster")) << faster.out;
}

TEST(Bench, BadFilesAreRefusedBeforeAnyWork) {
  const ScratchFile file("bad.json");
  EXPECT_CODE(run(kFast + "--against " + file.path()), 2) << "does not exist";
  file.write("{ not json");
  EXPECT_CODE(run(kFast + "--against " + file.path()), 2);
  file.write("{\"something\": \"else\"}");
  const Outcome other = run(kFast + "--against " + file.path());
  EXPECT_CODE(other, 2);
  EXPECT_TRUE(other.complains("results"));
  EXPECT_CODE(run(kFast + "--leaderboard " + file.path()), 2);
  const Outcome unwritable = run(kFast + "--save " + file.path() + "/below_a_file.json");
  EXPECT_CODE(unwritable, 2);
  EXPECT_TRUE(unwritable.out.empty()) << "nothing was timed";
}

TEST(Bench, TheLeaderboardTakesOnlyTheFaster) {
  const ScratchFile board("leaderboard.json");
  const Outcome first = run(kFast + "--leaderboard " + board.path());
  EXPECT_CODE(first, 0);
  EXPECT_TRUE(first.says("entered")) << first.out;
  EXPECT_TRUE(first.says("the first on this case")) << first.out;

  const auto leads_with = [&](double factor) {
    nlohmann::json json = board.json();
    auto& entry = json["cases"].begin()->back();
    entry["p50_us"] = entry["p50_us"].get<double>() * factor;
    entry["kernel"] = "cpu_of_old";  // not in this build, so its recorded time counts
    board.write(json.dump());
  };
  leads_with(0.01);
  const Outcome slower = run(kFast + "--leaderboard " + board.path());
  EXPECT_TRUE(slower.says("not entered")) << slower.out;
  EXPECT_EQ(board.json()["cases"].begin()->size(), 1u);

  leads_with(1e6);
  const Outcome faster = run(kFast + "--json --leaderboard " + board.path());
  EXPECT_TRUE(faster.json()["leaderboard"][0]["entered"].get<bool>()) << faster.out;
  EXPECT_EQ(board.json()["cases"].begin()->size(), 2u);
}

}  // namespace
}  // namespace tessera::cli_tests
