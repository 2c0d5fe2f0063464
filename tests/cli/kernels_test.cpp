// `tessera kernels`.
#include <fmt/format.h>

#include <algorithm>

#include "cases/case.hpp"
#include "core/kernel.hpp"
#include "run.hpp"

namespace tessera::cli_tests {
namespace {

TEST(Kernels, TheMatrixHasEveryKernelOfTheBuild) {
  const Outcome text = run("kernels");
  const Outcome json = run("kernels --json");
  EXPECT_CODE(text, 0);
  EXPECT_CODE(json, 0);
  ASSERT_EQ(json.json()["kernels"].size(), core::kernels().size());
  for (const core::Kernel& kernel : core::kernels()) EXPECT_TRUE(text.says(std::string(kernel.name)));
  for (const auto& row : json.json()["kernels"])
    EXPECT_EQ(row["runs_here"].get<bool>(), row["missing"].get<std::string>().empty());
}

TEST(Kernels, WhyShowsThePlan) {
  const Outcome why = run("kernels --why mission512 --json");
  EXPECT_CODE(why, 0);
  const auto plan = why.json()["plans"][0];
  EXPECT_EQ(plan["case"], "mission512");
  EXPECT_TRUE(plan["supported"].get<bool>());
  EXPECT_DOUBLE_EQ(plan["flops"].get<double>(), 4.0 * 2 * 8 * 512 * 512 * 64);
  EXPECT_GE(plan["geometry"]["work_items"].get<int>(), 1);
  const auto of_the_cpu = std::count_if(core::kernels().begin(), core::kernels().end(),
                                        [](const core::Kernel& k) { return k.device == TESSERA_CPU; });
  EXPECT_EQ(plan["others"].size() + 1, static_cast<std::size_t>(of_the_cpu));

  const Outcome text = run("kernels --why mission512 --why 'b1 h32/8 q1 k4096 d128 f16' --threads 2");
  EXPECT_CODE(text, 0);
  for (const char* piece : {"mission512", "b1 h32/8 q1 k4096", "geometry", "cost"})
    EXPECT_TRUE(text.says(piece));
}

TEST(Kernels, TheEnvironmentSetsTheThreads) {
  const auto threads = [](const std::string& flags, const std::string& environment) {
    return run("kernels --why canon_1 --json " + flags, environment)
        .json()["plans"][0]["geometry"]["threads"]
        .get<int>();
  };
  EXPECT_EQ(threads("", "TESSERA_NUM_THREADS=3 OMP_NUM_THREADS=5"), 3);
  EXPECT_EQ(threads("", "TESSERA_NUM_THREADS= OMP_NUM_THREADS=5,2"), 5);
  EXPECT_EQ(threads("--threads 2", "TESSERA_NUM_THREADS=3"), 2);
  EXPECT_EQ(threads("--threads 2", "TESSERA_NUM_THREADS=three"), 2);
  EXPECT_TRUE(run("kernels --why canon_1", "OMP_NUM_THREADS=5").says("OMP_NUM_THREADS asks for 5 threads"));
  const Outcome bad = run("kernels --why canon_1", "TESSERA_NUM_THREADS=three");
  EXPECT_CODE(bad, 2);
  EXPECT_TRUE(bad.complains(
      "TESSERA_NUM_THREADS is \"three\" in the environment; 0 (all cores) to 1024 is accepted"));
  for (const char* verb : {"kernels --why canon_1", "roofline --measure", "bench mission512"})
    EXPECT_CODE(run(fmt::format("{} --threads 1025", verb)), 2);
}

TEST(Kernels, WhyTakesEveryNamedCaseWithoutAllocatingIt) {
  std::string line = "kernels --json";
  for (const cases::Case& c : cases::named()) line += " --why " + c.name;
  const Outcome all = run(line);
  EXPECT_CODE(all, 0);
  EXPECT_EQ(all.json()["plans"].size(), cases::named().size());
}

TEST(Kernels, CasesAreListedWithTheirWork) {
  const Outcome json = run("kernels --cases --json");
  EXPECT_CODE(json, 0);
  ASSERT_EQ(json.json()["cases"].size(), cases::named().size());
  for (const auto& row : json.json()["cases"]) {
    if (row["name"] != "canon_1") continue;
    EXPECT_DOUBLE_EQ(row["flops"].get<double>(), 4.0 * 4 * 16 * 2048 * 2048 * 128);
  }
  EXPECT_TRUE(run("kernels --cases").says("canon_1_causal"));
}

}  // namespace
}  // namespace tessera::cli_tests
