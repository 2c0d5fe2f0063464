// `tessera profile` without Nsight Compute: reading what it prints, and holding counters to limits.
#include "cli/profile_gates.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::cli {
namespace {

// As `ncu --csv --page raw --print-units base` prints: talk, names, units, one line per launch.
constexpr const char* kOutput =
    R"csv(==PROF== Connected to process 4242 (/opt/tessera)
==PROF== Profiling "shared" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","gpu__time_duration.sum","l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum","l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum","launch__registers_per_thread","launch__shared_mem_per_block_dynamic","launch__shared_mem_per_block_static","memory_l1_wavefronts_shared","sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active","smsp__sass_inst_executed_op_ldsm.sum","smsp__sass_inst_executed_op_shared_ld.sum","smsp__sass_inst_executed_op_shared_st.sum"
"","","","","","","","","","","","ns","","","register/thread","byte/block","byte/block","","%","inst","inst","inst"
"0","4242","tessera","127.0.0.1","void ladder::shared<(bool)1, ""quoted"", __half>(Params)","1","7","(128, 1, 1)","(8, 16, 1)","0","9.0","12,032","1,500,000","500,000","96","0","16,384","1048576 (1; 2)","n/a","0","1,000,000","500,000"
)csv";

core::Kernel rung(int number, core::Budget budget = {128, 65536}) {
  core::Kernel row{};
  row.name = "shared";
  row.rung = number;
  row.budget = budget;
  return row;
}

const Gate& gate(const std::vector<Gate>& gates, const std::string& what) {
  const auto found = std::find_if(gates.begin(), gates.end(), [&](const Gate& g) { return g.what == what; });
  EXPECT_NE(found, gates.end()) << what;
  return found == gates.end() ? gates.front() : *found;
}

Profile recorded() {
  const std::vector<Profile> profiles = parse_profile(kOutput);
  EXPECT_EQ(profiles.size(), 1u);
  return profiles.empty() ? Profile{} : profiles.front();
}

TEST(ProfileOutput, IsReadWithThousandsQuotesAndGaps) {
  const Profile profile = recorded();
  EXPECT_EQ(profile.kernel, "void ladder::shared<(bool)1, \"quoted\", __half>(Params)");
  EXPECT_EQ(profile.at("gpu__time_duration.sum"), 12032);
  EXPECT_EQ(profile.at("launch__registers_per_thread"), 96);
  EXPECT_EQ(profile.at("memory_l1_wavefronts_shared"), 1048576) << "the sum, without its parts";
  EXPECT_FALSE(
      profile.at("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active").has_value());
  EXPECT_FALSE(profile.at("Process ID").has_value()) << "only counters are counters";
}

TEST(ProfileOutput, WithoutALaunchThereIsNoProfile) {
  EXPECT_TRUE(parse_profile("").empty());
  EXPECT_TRUE(parse_profile("==ERROR== ERR_NVGPUCTRPERM\n").empty());
  EXPECT_TRUE(parse_profile("\"ID\",\"Kernel Name\"\n\"\",\"\"\n").empty());
  EXPECT_TRUE(parse_profile("\"ID\",\"Kernel Name\"\n\"\",\"\"\n\"0\",\"cut off").size() == 1u);
}

TEST(ProfileOutput, CountersThatNcuRefusesAreNamed) {
  EXPECT_TRUE(refused_metrics("==PROF== dram__throughput.avg.pct_of_peak_sustained_elapsed\n").empty());
  const auto refused = refused_metrics(
      "==ERROR== Failed to find metric regex:^memory_l1_wavefronts_shared_ideal\\.(sum|min|max|avg)$\n"
      "==ERROR== Failed to find metric lts__t_sector_hit_rate.pct\n");
  EXPECT_EQ(refused,
            (std::vector<std::string>{"memory_l1_wavefronts_shared_ideal", "lts__t_sector_hit_rate.pct"}));
}

TEST(ProfileGates, RungTwoIsHeldToItsWavefronts) {
  const char* what = "shared-memory wavefronts per request";
  Profile profile = recorded();
  EXPECT_EQ(gate(judge_profile(profile, rung(2)), what).outcome, Gate::Outcome::passed);
  EXPECT_NEAR(*gate(judge_profile(profile, rung(2)), what).value, 2'000'000 / 1'500'000.0, 1e-12);
  profile.metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] = 2'500'000;  // exactly 2
  EXPECT_EQ(gate(judge_profile(profile, rung(2)), what).outcome, Gate::Outcome::failed);
  EXPECT_EQ(gate(judge_profile(profile, rung(8)), what).outcome, Gate::Outcome::no_limit);
}

TEST(ProfileGates, TheBudgetHoldsForEveryKernel) {
  const Profile profile = recorded();
  const auto within = judge_profile(profile, rung(2, {96, 16384}));
  EXPECT_EQ(gate(within, "registers per thread").outcome, Gate::Outcome::passed);
  EXPECT_EQ(gate(within, "shared memory per block").outcome, Gate::Outcome::passed);
  const auto beyond = judge_profile(profile, rung(2, {95, 16383}));
  EXPECT_EQ(gate(beyond, "registers per thread").outcome, Gate::Outcome::failed);
  EXPECT_EQ(gate(beyond, "shared memory per block").outcome, Gate::Outcome::failed);
}

TEST(ProfileGates, ALimitWhoseCounterIsMissingIsNotPassed) {
  const auto gates = judge_profile(recorded(), rung(2));
  EXPECT_EQ(gate(gates, "local-memory sectors").outcome, Gate::Outcome::unread);
  EXPECT_EQ(gate(gates, "tensor pipe busy").outcome, Gate::Outcome::no_limit);
  EXPECT_EQ(gate(gates, "tensor pipe busy").text, "not read");
}

TEST(ProfileGates, TensorCoresAreAskedForFromRungFiveAndOfProductionKernels) {
  Profile profile = recorded();
  for (const double instructions : {0.0, 640.0}) {
    profile.metrics["sm__inst_executed_pipe_tensor_op_hmma.sum"] = instructions;
    const auto wanted = instructions > 0 ? Gate::Outcome::passed : Gate::Outcome::failed;
    EXPECT_EQ(gate(judge_profile(profile, rung(4)), "tensor instructions").outcome, Gate::Outcome::no_limit);
    EXPECT_EQ(gate(judge_profile(profile, rung(5)), "tensor instructions").outcome, wanted);
    EXPECT_EQ(gate(judge_profile(profile, rung(0)), "tensor instructions").outcome, wanted);
  }
}

TEST(ProfileGates, GlobalSectorsAreIdealFromRungFour) {
  Profile profile = recorded();
  profile.metrics["memory_l2_theoretical_sectors_global"] = 1200;
  profile.metrics["memory_l2_theoretical_sectors_global_ideal"] = 1000;
  EXPECT_EQ(gate(judge_profile(profile, rung(3)), "global sectors over ideal").outcome,
            Gate::Outcome::no_limit);
  EXPECT_EQ(gate(judge_profile(profile, rung(4)), "global sectors over ideal").outcome,
            Gate::Outcome::failed);
  profile.metrics["memory_l2_theoretical_sectors_global"] = 1000;
  EXPECT_EQ(gate(judge_profile(profile, rung(4)), "global sectors over ideal").outcome,
            Gate::Outcome::passed);
}

TEST(ProfileGates, EveryCounterIsAskedForOnce) {
  std::vector<std::string> metrics = profile_metrics();
  std::sort(metrics.begin(), metrics.end());
  EXPECT_EQ(std::adjacent_find(metrics.begin(), metrics.end()), metrics.end());
}

}  // namespace
}  // namespace tessera::cli
