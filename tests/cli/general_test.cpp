// What holds for every verb: help, version, mistakes, colour.
#include "run.hpp"

namespace tessera::cli_tests {
namespace {

const char* const kVerbs[] = {"demo", "attend", "quantise", "verify", "bench", "roofline", "kernels"};

TEST(Cli, HelpNamesEveryVerbAndShowsExamples) {
  const Outcome help = run("--help");
  EXPECT_CODE(help, 0);
  EXPECT_TRUE(help.says("Examples:"));
  for (const char* verb : kVerbs) EXPECT_TRUE(help.says(std::string("\n  ") + verb + " ")) << verb;
}

TEST(Cli, EveryVerbHasHelpWithExamplesAndJson) {
  for (const char* verb : kVerbs) {
    const Outcome help = run(std::string(verb) + " --help");
    EXPECT_CODE(help, 0);
    EXPECT_TRUE(help.says("Examples:")) << verb;
    EXPECT_TRUE(help.says(std::string("tessera ") + verb)) << verb;
    EXPECT_TRUE(help.says("--json")) << verb;
    EXPECT_TRUE(help.says("Exit code")) << verb;
  }
}

TEST(Cli, VersionIsPrinted) {
  const Outcome version = run("--version");
  EXPECT_CODE(version, 0);
  EXPECT_EQ(version.out.rfind("tessera 0.", 0), 0u) << version.out;
}

TEST(Cli, AMistypedVerbIsNamedWithASuggestion) {
  const Outcome typo = run("verfy");
  EXPECT_CODE(typo, 2);
  EXPECT_TRUE(typo.complains("'verfy'"));
  EXPECT_TRUE(typo.complains("did you mean 'verify'?"));
  EXPECT_TRUE(typo.out.empty());
}

TEST(Cli, NoVerbShowsHelpAndIsAMistake) {
  const Outcome nothing = run("");
  EXPECT_CODE(nothing, 2);
  EXPECT_TRUE(nothing.complains("Usage:"));
}

TEST(Cli, UnknownFlagsAndBadValuesAreUsageErrors) {
  for (const char* line :
       {"verify --no-such-flag", "bench --min-time nonsense", "bench --threads -3",
        "roofline --gpu L4 canon_1 --target 0", "kernels extra words here", "--no-such-flag"}) {
    const Outcome bad = run(line);
    EXPECT_CODE(bad, 2) << line;
    EXPECT_FALSE(bad.err.empty()) << line;
  }
}

TEST(Cli, ABadCaseIsExplainedWhereverItIsGiven) {
  for (const char* line :
       {"verify canon_9", "bench --case canon_9", "roofline --gpu L4 canon_9", "kernels --why canon_9"}) {
    const Outcome bad = run(line);
    EXPECT_CODE(bad, 2) << line;
    EXPECT_TRUE(bad.complains("canon_9")) << line;
    EXPECT_TRUE(bad.complains("Did you mean 'canon_1'?")) << bad.err;
  }
  EXPECT_TRUE(run("verify --group nonsense").complains("mission, canonical"));
}

// Builds with and without CUDA, machines with and without a GPU: the same words as `kernels` has for it.
TEST(Cli, CudaIsRefusedClearlyWhereThereIsNoGpu) {
  EXPECT_CODE(run("verify mission256 --device abacus"), 2);
  EXPECT_CODE(run("verify mission256 --device cuda --gpu -1"), 2);
  const nlohmann::json kernels = run("kernels --json").json();
  const bool gpu = !kernels["gpu"].is_null();
  for (const char* line : {"verify mission256 --device cuda", "bench mission256 --device cuda",
                           "bench --device cuda --ladder", "kernels --why mission256 --device cuda"}) {
    const std::string flags = gpu ? " --gpu 1000" : "";
    const Outcome refused = run(line + flags);
    EXPECT_CODE(refused, 3) << line;
    EXPECT_TRUE(refused.complains(gpu ? "no GPU 1000" : kernels["gpu_missing"].get<std::string>()))
        << refused.err;
  }
}

TEST(Cli, TheLadderIsAGpus) {
  EXPECT_CODE(run("bench --ladder"), 2);
  EXPECT_TRUE(run("bench --ladder").complains("--device cuda"));
}

TEST(Cli, ColourOnATerminalOnly) {
  const Outcome coloured = run_on_terminal({"kernels"}, nullptr);
  if (coloured.code == kNoTerminal) GTEST_SKIP() << "skipped: colour on a terminal, because " << coloured.err;
  EXPECT_TRUE(has_escape_codes(coloured.out));
  EXPECT_FALSE(has_escape_codes(run_on_terminal({"kernels"}, "1").out));
  EXPECT_TRUE(has_escape_codes(run_on_terminal({"kernels"}, "").out)) << "an empty NO_COLOR is no wish";
  EXPECT_FALSE(has_escape_codes(run("kernels").out));
}

TEST(Cli, AttendSaysWhatIsWrongWithItsFiles) {
  const Outcome missing = run("attend --query no.npy --key no.npy --value no.npy --output o.npy");
  EXPECT_CODE(missing, 2);
  EXPECT_TRUE(missing.complains("no.npy")) << missing.err;
}

}  // namespace
}  // namespace tessera::cli_tests
