// The selector and the path from a call to submit(), with kernels of this program's own: which one is taken,
// why, how often it is prepared, and what it is given.
#include "core/plan.hpp"

#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "tests/support/fake_cpu.hpp"

namespace tessera::core {
namespace {

struct Submitted {
  std::string kernel;
  Addresses at;
  void* workspace;
  std::size_t workspace_bytes;
};

// How the kernels behave, and what happened to them.
struct Script {
  std::map<std::string, Estimate> estimate = {{"fast", {10, ""}}, {"slow", {100, ""}}, {"twin", {100, ""}}};
  std::map<std::string, std::string> refusal;  // of supports(), by kernel
  Status submit_answer;
  std::map<std::string, int> prepared;
  std::vector<Submitted> submitted;
};
Script script;

constexpr std::int64_t kRoom = 1000;

class Fake final : public Prepared {
 public:
  Fake(std::string name, std::int64_t room) : name_(std::move(name)) { workspace_bytes = room; }
  std::string words() const override { return "no work is done"; }
  Status submit(const Addresses& at, const tessera_device& device) const override {
    script.submitted.push_back({name_, at, device.workspace, device.workspace_bytes});
    return script.submit_answer;
  }

 private:
  std::string name_;
};

Kernel row(const char* name, std::int64_t room) {
  Kernel k;
  k.name = name;
  k.device = TESSERA_CPU;
  k.missing = [](const Device&) { return std::string(); };
  k.supports = [=](const Problem&) {
    const auto found = script.refusal.find(name);
    return found == script.refusal.end() ? Status{} : unsupported(found->second);
  };
  k.estimate = [=](const Problem&, const Device&) { return script.estimate.at(name); };
  k.prepare = [=](const Problem&, const Device&, std::shared_ptr<const Prepared>* out) {
    ++script.prepared[name];
    *out = std::make_shared<Fake>(name, room);
    return Status{};
  };
  return k;
}

std::vector<Kernel> rows() {
  Kernel named = row("named", 0);
  named.estimate = nullptr;
  Kernel twin = row("twin", 0);
  twin.mixed = true;
  return {named, row("fast", kRoom), row("slow", 0), twin};
}

}  // namespace

// In place of src/backends.cpp.
const std::vector<const Backend*>& backends() {
  static const testing_rows::FakeCpu fake(rows());
  static const std::vector<const Backend*> all = {&fake};
  return all;
}

namespace {

constexpr const char* kNoRoom = "device.workspace_bytes is 0; 1000 are needed";

class Plans : public testing::Test {
 protected:
  Plans() {
    script = {};
    static std::int64_t keys = 1;
    ++keys;  // a shape of its own for each test: this thread's plans stay
    problem.query = tessera_tensor_4d(memory, TESSERA_F32, 1, 1, 2, 1);
    problem.key = tessera_tensor_4d(memory + 16, TESSERA_F32, 1, 1, keys, 1);
    problem.value = tessera_tensor_4d(memory + 64, TESSERA_F32, 1, 1, keys, 1);
    problem.output = tessera_tensor_4d(memory + 112, TESSERA_F32, 1, 1, 2, 1);
  }

  tessera_plan_info plan() {
    tessera_plan_info info = TESSERA_PLAN_INFO_INIT;
    EXPECT_EQ(tessera_plan(&problem, &device, &info), TESSERA_OK) << tessera_last_error();
    return info;
  }
  std::string planned() { return plan().kernel; }
  std::string explained() {
    char text[2048];
    tessera_explain(&problem, &device, text, sizeof text);
    return text;
  }
  tessera_status attend() { return tessera_attend(&problem, &device); }
  void give(std::size_t bytes) {
    device.workspace = room;
    device.workspace_bytes = bytes;
  }

  alignas(256) float memory[128] = {};
  alignas(256) std::byte room[2 * kRoom] = {};
  tessera_attention problem = TESSERA_ATTENTION_INIT;
  tessera_device device = TESSERA_DEVICE_INIT;
};

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

// A row that says nothing of keys of a dtype of their own never gets them.
TEST_F(Plans, KeysOfAnotherDtypeGoOnlyToRowsThatTakeThem) {
  problem.key.dtype = problem.value.dtype = TESSERA_I8;
  EXPECT_EQ(planned(), "twin");
  device.kernel = "slow";
  EXPECT_EQ(tessera_attend(&problem, &device), TESSERA_UNSUPPORTED);
  EXPECT_NE(std::string(tessera_last_error()).find("key.dtype is i8 and query.dtype is f32"),
            std::string::npos)
      << tessera_last_error();
}

TEST_F(Plans, WithoutRoomAKernelThatNeedsNone) {
  const tessera_plan_info info = plan();
  EXPECT_STREQ(info.kernel, "slow");
  EXPECT_EQ(info.workspace_bytes, 0);
  EXPECT_TRUE(has(info.reason, std::string("fast: ") + kNoRoom)) << info.reason;
  EXPECT_TRUE(has(explained(), std::string("fast: ") + kNoRoom)) << explained();
  EXPECT_EQ(attend(), TESSERA_OK);
  ASSERT_EQ(script.submitted.size(), 1u);
  EXPECT_EQ(script.submitted[0].kernel, "slow");
  EXPECT_EQ(script.submitted[0].workspace, nullptr);
}

TEST_F(Plans, TheBudgetDecides) {
  device.workspace_bytes = kRoom - 1;
  EXPECT_EQ(planned(), "slow");
  EXPECT_TRUE(has(plan().reason, "fast: device.workspace_bytes is 999; 1000 are needed")) << plan().reason;
  device.workspace_bytes = kRoom;
  EXPECT_EQ(planned(), "fast");
  EXPECT_EQ(plan().workspace_bytes, kRoom);
  device.workspace_bytes = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(planned(), "fast");
  EXPECT_EQ(plan().workspace_bytes, kRoom);
  EXPECT_TRUE(script.submitted.empty());
}

TEST_F(Plans, ByNameWithoutRoomIsRefused) {
  device.kernel = "fast";
  EXPECT_EQ(attend(), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tessera_last_error()),
            std::string("kernel fast was asked for by name, but ") + kNoRoom);
  give(kRoom - 1);
  EXPECT_EQ(attend(), TESSERA_INVALID_ARGUMENT);
  EXPECT_TRUE(has(tessera_last_error(), "device.workspace_bytes is 999; 1000 are needed"))
      << tessera_last_error();
  EXPECT_TRUE(script.submitted.empty());
  give(kRoom);
  EXPECT_EQ(attend(), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(plan().reason, std::string("asked for by name; no work is done"));
}

TEST_F(Plans, TheWorkspaceReachesTheKernel) {
  give(kRoom);
  EXPECT_EQ(attend(), TESSERA_OK) << tessera_last_error();
  device.workspace = room + 256;
  EXPECT_EQ(attend(), TESSERA_OK) << tessera_last_error();
  device.workspace = nullptr;
  device.workspace_bytes = 0;
  EXPECT_EQ(attend(), TESSERA_OK) << tessera_last_error();
  ASSERT_EQ(script.submitted.size(), 3u);
  for (std::size_t n : {0, 1}) {
    EXPECT_EQ(script.submitted[n].kernel, "fast");
    EXPECT_EQ(script.submitted[n].workspace, room + 256 * n);
    EXPECT_EQ(script.submitted[n].workspace_bytes, static_cast<std::size_t>(kRoom));
  }
  EXPECT_EQ(script.submitted[2].kernel, "slow");
  EXPECT_EQ(script.submitted[2].workspace, nullptr);
}

TEST_F(Plans, ANullWorkspaceWithBytesIsABudgetAndNoMemory) {
  device.workspace_bytes = kRoom;
  EXPECT_EQ(planned(), "fast");
  EXPECT_EQ(attend(), TESSERA_INVALID_ARGUMENT);
  EXPECT_TRUE(script.submitted.empty());
}

TEST_F(Plans, EstimatesDecideAndNotTheTable) {
  script.estimate["twin"] = {50, ""};  // behind slow
  EXPECT_EQ(planned(), "twin");
  EXPECT_TRUE(has(plan().reason, "slow: is estimated to take 2.00 times as long")) << plan().reason;
  script.estimate["fast"] = {51, ""};  // before it
  device.workspace_bytes = kRoom;
  EXPECT_EQ(planned(), "twin");
  EXPECT_TRUE(has(plan().reason, "fast: is estimated to take 1.02 times as long")) << plan().reason;
}

TEST_F(Plans, EqualEstimatesGoByTheTable) {
  EXPECT_EQ(planned(), "slow");
  device.workspace_bytes = kRoom;
  script.estimate["fast"] = {100, ""};
  EXPECT_EQ(planned(), "fast");
}

TEST_F(Plans, WhatIsBestAvoidedIsTakenIfNothingElseCan) {
  const Estimate never{std::numeric_limits<double>::infinity(), "it is a bad idea"};
  script.estimate["slow"] = never;
  EXPECT_EQ(planned(), "twin");
  EXPECT_TRUE(has(plan().reason, "slow: it is a bad idea")) << plan().reason;
  script.refusal["twin"] = "it cannot";
  device.threads = 1;  // another call
  EXPECT_EQ(planned(), "slow");
}

TEST_F(Plans, AKernelWithoutEstimateRunsByNameAlone) {
  EXPECT_FALSE(has(plan().reason, "named:")) << plan().reason;
  script.refusal = {{"fast", "no"}, {"slow", "no"}, {"twin", "no"}};
  device.threads = 1;  // another call
  EXPECT_EQ(attend(), TESSERA_UNSUPPORTED);
  EXPECT_EQ(std::string(tessera_last_error()),
            "no kernel can compute this problem: fast: no; slow: no; twin: no");
  device.kernel = "named";
  EXPECT_EQ(attend(), TESSERA_OK) << tessera_last_error();
  ASSERT_EQ(script.submitted.size(), 1u);
  EXPECT_EQ(script.submitted[0].kernel, "named");
}

TEST_F(Plans, WhereOnlyRoomIsMissingTheSentenceSaysSo) {
  script.refusal = {{"slow", "no"}, {"twin", "no"}};
  EXPECT_EQ(attend(), TESSERA_INVALID_ARGUMENT);
  EXPECT_STREQ(tessera_last_error(), kNoRoom);
}

TEST_F(Plans, CallsThatDifferInAddressesArePreparedOnce) {
  for (float* output : {memory + 112, memory + 116, memory + 120, memory + 112}) {
    problem.output.data = output;
    EXPECT_EQ(attend(), TESSERA_OK) << tessera_last_error();
    EXPECT_EQ(script.submitted.back().at[TensorId::output], output);
    EXPECT_EQ(script.submitted.back().at[TensorId::query], memory);
    EXPECT_EQ(script.submitted.back().at[TensorId::key], memory + 16);
    EXPECT_EQ(script.submitted.back().at[TensorId::value], memory + 64);
    EXPECT_EQ(script.submitted.back().at[TensorId::sinks], nullptr);
  }
  EXPECT_EQ(script.submitted.size(), 4u);
  EXPECT_EQ(script.prepared["slow"], 1);
  problem.output.data = problem.query.data;  // what was planned is still checked
  EXPECT_EQ(attend(), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(script.submitted.size(), 4u);
}

TEST_F(Plans, WhatFailedIsPreparedAgain) {
  EXPECT_EQ(attend(), TESSERA_OK);
  script.submit_answer = {TESSERA_INTERNAL, "the device was lost"};
  EXPECT_EQ(attend(), TESSERA_INTERNAL);
  EXPECT_STREQ(tessera_last_error(), "the device was lost");
  EXPECT_EQ(script.prepared["slow"], 1);
  EXPECT_EQ(attend(), TESSERA_INTERNAL);
  EXPECT_EQ(script.prepared["slow"], 2);
  script.submit_answer = {};
  for (int n = 0; n < 3; ++n) EXPECT_EQ(attend(), TESSERA_OK);
  EXPECT_EQ(script.prepared["slow"], 3);
}

TEST_F(Plans, OneCallKeepsAPlanForEachBudget) {
  for (int n = 0; n < 3; ++n) {
    give(kRoom);
    EXPECT_EQ(attend(), TESSERA_OK);
    EXPECT_EQ(script.submitted.back().kernel, "fast");
    device.workspace = nullptr;
    device.workspace_bytes = 0;
    EXPECT_EQ(attend(), TESSERA_OK);
    EXPECT_EQ(script.submitted.back().kernel, "slow");
  }
  EXPECT_EQ(script.prepared["slow"], 1);
}

}  // namespace
}  // namespace tessera::core
