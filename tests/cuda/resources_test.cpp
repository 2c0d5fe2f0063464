// Registers, shared memory, stack and spills of every CUDA kernel, without a GPU: <build>/resources.json,
// written by the build from ptxas' report, held to each kernel's budget. And the gate itself, on reports made
// up here.
#include "resources.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "cuda/sm90/configs.hpp"

namespace tessera::cuda_tests {
namespace {

core::Kernel row(std::string_view name, std::string_view symbol, core::Budget budget) {
  core::Kernel kernel{};
  kernel.name = name;
  kernel.device = TESSERA_CUDA;
  kernel.symbol = symbol;
  kernel.budget = budget;
  return kernel;
}

std::vector<Function> on_every_arch(const Function& function) {
  std::vector<Function> functions;
  for (const std::string& arch : kArchs) {
    functions.push_back(function);
    functions.back().arch = arch;
  }
  return functions;
}

const Function kGood{"void tessera::cuda::ladder::scalar<float>(Params)", "", 64, 1024, 0, 0};
const std::vector<core::Kernel> kRows = {row("scalar", "ladder::scalar<", {64, 1024})};

TEST(ResourceGate, AcceptsWhatHoldsItsBudget) {
  EXPECT_TRUE(check_resources(on_every_arch(kGood), kRows).empty());
}

TEST(ResourceGate, RefusesEachKindOfExcess) {
  for (const auto change :
       {+[](Function& f) { f.registers = 65; }, +[](Function& f) { f.shared_static_bytes = 1025; },
        +[](Function& f) { f.stack_bytes = 8; }, +[](Function& f) { f.spill_bytes = 4; }}) {
    std::vector<Function> functions = on_every_arch(kGood);
    change(functions[1]);
    const auto wrong = check_resources(functions, kRows);
    ASSERT_EQ(wrong.size(), 1u);
    EXPECT_NE(wrong[0].find("sm_89"), std::string::npos) << wrong[0];
  }
}

TEST(ResourceGate, RefusesAFunctionOfNoRowAndOfTwo) {
  std::vector<Function> functions = on_every_arch(kGood);
  functions.push_back({"void forgotten(int)", "sm_80", 8, 0, 0, 0});
  EXPECT_EQ(check_resources(functions, kRows).size(), 1u);
  const std::vector<core::Kernel> overlapping = {kRows[0], row("other", "scalar<", {64, 1024})};
  EXPECT_EQ(check_resources(on_every_arch(kGood), overlapping).size(), kArchs.size());
}

TEST(ResourceGate, AKernelIsNotAnothersForATypeOfItsArguments) {
  Function borrows = kGood;
  borrows.name = "void tessera::cuda::other::attend<(tessera::cuda::ladder::scalar<float>::Codes)1>(Params)";
  std::vector<Function> functions = on_every_arch(kGood);
  for (const Function& function : on_every_arch(borrows)) functions.push_back(function);
  EXPECT_TRUE(check_resources(functions, {kRows[0], row("other", "other::attend<", {64, 1024})}).empty());
}

TEST(ResourceGate, RowsThatShareAFunctionAreEachHeldToTheirBudget) {
  const std::vector<core::Kernel> shared = {kRows[0], row("scalar_again", "ladder::scalar<", {63, 1024})};
  EXPECT_EQ(check_resources(on_every_arch(kGood), shared).size(), kArchs.size());
}

TEST(ResourceGate, RefusesARowThatIsNotCompiledForAnArch) {
  std::vector<Function> functions = on_every_arch(kGood);
  Function other = kGood;
  other.name = "void other(Params)";
  for (const Function& function : on_every_arch(other)) functions.push_back(function);
  functions.pop_back();  // of sm_90a, which the first kernel is compiled for
  const auto wrong = check_resources(functions, {kRows[0], row("other", "void other(", {64, 1024})});
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0], "other is not compiled for sm_90a");
}

TEST(ResourceGate, JudgesTheArchsThatTheBuildHasAndNamesTheOthers) {
  Function only = kGood;
  only.arch = "sm_90a";
  EXPECT_TRUE(check_resources({only}, kRows).empty());
  EXPECT_EQ(archs_left_out({only}), (std::vector<std::string>{"sm_80", "sm_89"}));
  only.registers = 65;
  EXPECT_EQ(check_resources({only}, kRows).size(), 1u);
  EXPECT_TRUE(archs_left_out(on_every_arch(kGood)).empty());
}

TEST(ResourceGate, ARowOfOneArchIsCompiledForThatAlone) {
  std::vector<core::Kernel> rows = kRows;
  rows[0].only_arch = "sm_90a";
  EXPECT_TRUE(check_resources({on_every_arch(kGood).back()}, rows).empty());
  EXPECT_EQ(check_resources(on_every_arch(kGood), rows).size(), kArchs.size() - 1);
  Function other = kGood;
  other.name = "void other(Params)";
  rows.push_back(row("other", "void other(", {64, 1024}));
  const auto wrong = check_resources(on_every_arch(other), rows);
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0], "scalar is not compiled for sm_90a");
}

TEST(ResourceGate, ARowFromAnArchOnIsCompiledForThatAndNewerOnes) {
  std::vector<core::Kernel> rows = {kRows[0], row("new", "void fresh(", {64, 1024})};
  rows[1].least_arch = 89;
  std::vector<Function> functions = on_every_arch(kGood);
  Function fresh = kGood;
  fresh.name = "void fresh(Params)";
  for (const char* arch : {"sm_89", "sm_90a"}) {
    const auto wrong = check_resources(functions, rows);
    EXPECT_NE(std::find(wrong.begin(), wrong.end(), fmt::format("new is not compiled for {}", arch)),
              wrong.end());
    fresh.arch = arch;
    functions.push_back(fresh);
  }
  EXPECT_TRUE(check_resources(functions, rows).empty());
  fresh.arch = "sm_80";
  functions.push_back(fresh);
  const auto wrong = check_resources(functions, rows);
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0], "void fresh(Params) is compiled for sm_80, but new is for sm_89 and newer");
}

TEST(ResourceGate, RefusesARowWithoutSymbolOrBudget) {
  const std::vector<core::Kernel> rows = {kRows[0], row("bare", "", {64, 0})};
  EXPECT_EQ(check_resources(on_every_arch(kGood), rows).size(), 1u);
}

bool has_cuda_rows() {
  const auto& rows = core::kernels();
  return std::any_of(rows.begin(), rows.end(),
                     [](const core::Kernel& k) { return k.device == TESSERA_CUDA; });
}

TEST(Resources, EveryKernelOfThisBuildHoldsItsBudget) {
  if (!has_cuda_rows()) GTEST_SKIP() << "skipped: kernel resources, because this build has no CUDA kernels";
  std::ifstream file(TESSERA_RESOURCES);
  if (!file)
    GTEST_SKIP() << "skipped: kernel resources, because the build had no python3 to write " TESSERA_RESOURCES;
  const std::vector<Function> functions = functions_in(nlohmann::json::parse(file));
  ASSERT_FALSE(functions.empty());
  for (const std::string& arch : archs_left_out(functions))
    fmt::print("skipped: kernel resources of {}, which this build has no code for\n", arch);
  std::vector<core::Kernel> rows = core::kernels();
  // What kernels of several rows have done beforehand, with budgets of its own.
  core::Kernel look;
  look.name = "the pass over a mask tensor";
  look.device = TESSERA_CUDA;
  look.symbol = "mask::look(";
  look.only_arch = "sm_90a";
  look.budget = {96, 8 * 1024 + 64, 0};
  rows.push_back(look);
  core::Kernel quantiser;
  quantiser.name = "the quantiser";
  quantiser.device = TESSERA_CUDA;
  quantiser.symbol = "cuda::quantise::";
  quantiser.budget = {212, 12 * 1024, 32};  // three blocks an SM leave 80 registers: some bytes spill
  rows.push_back(quantiser);
  // What stores new rows, before any of them.
  core::Kernel move;
  move.name = "the pass that stores new rows";
  move.device = TESSERA_CUDA;
  move.symbol = "append::move_rows";  // and move_rows_with_tails
  move.budget = {64, 0, 0};
  rows.push_back(move);
  core::Kernel merge;
  merge.name = "the kernel that merges serving's rows";
  merge.device = TESSERA_CUDA;
  merge.symbol = "serving::merge_rows<";
  merge.budget = {128, 0, 0};
  rows.push_back(merge);
  merge.name = "the same over codes";
  merge.symbol = "serving::merge_codes<";
  merge.budget = {128, 0, 136};  // of latent attention, stores and loads
  rows.push_back(merge);
  for (const std::string& sentence : check_resources(functions, rows)) ADD_FAILURE() << sentence;
  // What sm90 may spill is for its variant with mask tensors alone.
  const std::string general = fmt::format("Variant){}>", static_cast<int>(cuda::sm90::Variant::general));
  for (const Function& f : functions) {
    if (f.name.find("sm90::attend<") == std::string::npos || f.name.find(general) != std::string::npos)
      continue;
    EXPECT_EQ(f.spill_bytes + f.stack_bytes, 0) << f.name;
  }
}

// What the ladder was asked to stay within, so that every rung fits the smallest GPU it is built for.
TEST(Resources, EveryRungStaysWithinTheLaddersLimits) {
  for (const core::Kernel& kernel : core::kernels()) {
    if (kernel.rung == 0) continue;
    EXPECT_LE(kernel.budget.registers, 128) << kernel.name;
    EXPECT_LE(kernel.budget.shared_bytes, 64 * 1024) << kernel.name;
  }
}

}  // namespace
}  // namespace tessera::cuda_tests
