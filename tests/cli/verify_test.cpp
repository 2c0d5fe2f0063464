// `tessera verify`: passes what is right, finds what is wrong, and hands out commands that reproduce it.
#include "cases/gates.hpp"
#include "run.hpp"

namespace tessera::cli_tests {
namespace {

constexpr const char* kSmall = "'b1 h2/1 q5 k9 d16 f16 causal=bottom-right'";

TEST(Verify, ASmallCasePassesOnEveryKernelHere) {
  const Outcome outcome = run(std::string("verify --json ") + kSmall);
  EXPECT_CODE(outcome, 0);
  const auto json = outcome.json();
  EXPECT_EQ(json["failed"], 0);
  EXPECT_GE(json["kernels"].size(), 1u);
  for (const auto& kernel : json["kernels"]) {
    EXPECT_GE(kernel["passed"].get<int>(), 5) << "one per kind of input that differs";
    EXPECT_LE(kernel["worst_error_over_bound"].get<double>(), 1.0);
  }
}

TEST(Verify, TextNamesKernelsCountsAndTheWorst) {
  const Outcome outcome = run(std::string("verify --case ") + kSmall + " --input normal");
  EXPECT_CODE(outcome, 0);
  EXPECT_TRUE(outcome.says("worst error / bound"));
  EXPECT_TRUE(outcome.says("b1 h2/1 q5 k9")) << outcome.out;
  EXPECT_FALSE(has_escape_codes(outcome.out + outcome.err));
}

TEST(Verify, LargeCasesAreCutDownAndThatIsSaid) {
  const Outcome outcome = run("verify canon_1 --quick --input normal");
  EXPECT_CODE(outcome, 0);
  EXPECT_TRUE(outcome.says("cut down")) << outcome.out;
}

TEST(Verify, InputsAndKernelsAreChosenByName) {
  const Outcome one = run(std::string("verify --input tiny --kernel cpu_scalar --json ") + kSmall);
  EXPECT_CODE(one, 0);
  EXPECT_EQ(one.json()["kernels"].size(), 1u);
  EXPECT_EQ(one.json()["passed"], 1);

  EXPECT_TRUE(run("verify --input strange").complains("normal"));
  const Outcome unknown = run("verify --kernel cpu_abacus");
  EXPECT_CODE(unknown, 2);
  EXPECT_TRUE(unknown.complains("cpu_scalar"));
}

TEST(Verify, AKernelThatCannotRunHereIsListedOrRefused) {
  const auto json = run(std::string("verify --input normal --json ") + kSmall).json();
  for (const auto& absent : json["not_here"]) {
    EXPECT_FALSE(absent["why"].get<std::string>().empty());
    const Outcome asked = run("verify --kernel " + absent["name"].get<std::string>());
    EXPECT_CODE(asked, 3);
    EXPECT_TRUE(asked.complains("cannot run here"));
  }
}

// The command in a verdict is the very same check.
TEST(Verify, TheReproduceCommandRuns) {
  std::string error;
  const auto c =
      cases::parse("b2 h4/2 q7 k33 d24 v8 bf16 align=top-left window=3,5 mask=additive:keys sinks", &error);
  ASSERT_TRUE(c) << error;
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kernel = "cpu_scalar";
  device.threads = 2;
  const cases::Verdict verdict = cases::judge(*c, cases::Input::large, 42, device);
  ASSERT_EQ(verdict.reproduce.rfind("tessera ", 0), 0u) << verdict.reproduce;
  const Outcome again = run(verdict.reproduce.substr(8) + " --json");
  EXPECT_CODE(again, 0);
  EXPECT_EQ(again.json()["passed"], 1);
  EXPECT_EQ(again.json()["seed"], 42);
  EXPECT_DOUBLE_EQ(again.json()["kernels"][0]["worst_error_over_bound"].get<double>(), verdict.worst_ratio);
}

TEST(Verify, AWrongKernelIsFoundAndReproduced) {
  const std::string line = std::string("verify --input normal --seed 5 ") + kSmall;
  const Outcome found = run_faulty(line);
  EXPECT_CODE(found, 1);
  EXPECT_TRUE(found.says("FAILED cpu_faulty")) << found.out;
  EXPECT_TRUE(found.says("output[0,1,4,15]")) << found.out;

  const auto json = run_faulty(line + " --json").json();
  EXPECT_EQ(json["failed"], 1);
  ASSERT_EQ(json["failures"].size(), 1u);
  const std::string reproduce = json["failures"][0]["reproduce"].get<std::string>();
  ASSERT_EQ(reproduce.rfind("tessera ", 0), 0u) << reproduce;
  const Outcome again = run_faulty(reproduce.substr(8));
  EXPECT_CODE(again, 1);
  EXPECT_TRUE(again.says("output[0,1,4,15]")) << again.out;
}

// Half its tolerance, many times the derived bound.
TEST(Verify, AKernelWithAToleranceIsHeldToThatInsteadOfTheBound) {
  const Outcome passed = run_faulty("verify plain_f32 --input normal --kernel cpu_loose --json");
  EXPECT_CODE(passed, 0);
  const double ratio = passed.json()["kernels"][0]["worst_error_over_bound"];
  EXPECT_GT(ratio, 0.2);
  EXPECT_LT(ratio, 0.6);
}

}  // namespace
}  // namespace tessera::cli_tests
