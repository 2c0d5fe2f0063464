// CPU calls in memory of the caller's: what the plan asks for is enough, nothing else is touched, and the
// results are the bits of a call without.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <tessera/tessera.hpp>
#include <thread>
#include <vector>

namespace {

using tessera::Task;
using tessera::Workspace;
using Bytes = std::vector<std::uint8_t>;

constexpr Workspace kAnySize{.bytes = SIZE_MAX};

struct Shape {
  std::string name;
  long batch, heads, kv_heads, queries, keys;
  tessera::Dtype dtype;
  bool split;  // so few rows that the keys are cut up
};

const Shape kShapes[] = {
    {"prefill", 2, 4, 4, 150, 170, tessera::Dtype::f32, false},
    {"bf16_prefill", 1, 4, 4, 130, 130, tessera::Dtype::bf16, false},
    {"gqa", 2, 8, 2, 33, 300, tessera::Dtype::f16, false},
    {"decode", 1, 2, 2, 1, 9000, tessera::Dtype::f32, true},
    {"gqa_decode", 1, 8, 2, 1, 6000, tessera::Dtype::bf16, true},
};

// A problem with memory of its own.
struct Work {
  explicit Work(const Shape& s)
      : q(random(s.batch * s.heads * s.queries, s.dtype, 1)),
        k(random(s.batch * s.kv_heads * s.keys, s.dtype, 2)),
        v(random(s.batch * s.kv_heads * s.keys, s.dtype, 3)),
        o(q.size()),
        lse(static_cast<std::size_t>(s.batch * s.heads * s.queries)),
        problem{.query = tessera::tensor(q.data(), s.dtype, {s.batch, s.heads, s.queries, kDim}),
                .key = tessera::tensor(k.data(), s.dtype, {s.batch, s.kv_heads, s.keys, kDim}),
                .value = tessera::tensor(v.data(), s.dtype, {s.batch, s.kv_heads, s.keys, kDim}),
                .output = tessera::tensor(o.data(), s.dtype, {s.batch, s.heads, s.queries, kDim}),
                .lse = tessera::tensor(lse.data(), {s.batch, s.heads, s.queries}),
                .mask = tessera::causal_bottom_right()} {}
  Work(const Work&) = delete;

  void clear() {
    std::fill(o.begin(), o.end(), kUntouched);
    std::fill(lse.begin(), lse.end(), -7.0f);
  }
  bool untouched() const {
    return std::all_of(o.begin(), o.end(), [](std::uint8_t x) { return x == kUntouched; }) &&
           std::all_of(lse.begin(), lse.end(), [](float x) { return x == -7.0f; });
  }
  // Output and lse of one call, over memory that held something else.
  Bytes run(const tessera::Device& device) {
    clear();
    tessera::Status status = tessera::attend(problem, device);
    EXPECT_TRUE(status) << status.message();
    Bytes results = o;
    const auto* const more = reinterpret_cast<const std::uint8_t*>(lse.data());
    results.insert(results.end(), more, more + lse.size() * sizeof(float));
    return results;
  }
  // What a call on this device takes.
  std::size_t needs(tessera::Device device) const {
    kAnySize.put_into(&device);
    const tessera::Plan plan = tessera::plan(problem, device);
    EXPECT_TRUE(plan.status) << plan.status.message();
    return static_cast<std::size_t>(plan.workspace_bytes);
  }

  static constexpr long kDim = 40;
  static constexpr std::uint8_t kUntouched = 0x77;
  Bytes q, k, v, o;
  std::vector<float> lse;
  tessera::Attention problem;

 private:
  static Bytes random(long rows, tessera::Dtype dtype, unsigned seed) {
    std::mt19937 bits(seed);
    std::uniform_real_distribution<float> between(-2, 2);
    const bool wide = dtype == tessera::Dtype::f32;
    Bytes data(static_cast<std::size_t>(rows * kDim) * (wide ? 4 : 2));
    for (std::size_t at = 0; at < data.size(); at += wide ? 4 : 2) {
      const float x = between(bits);
      std::uint32_t word = 0;
      std::memcpy(&word, &x, sizeof word);
      // The upper half is a bf16, and as an f16 some number of a similar size.
      const std::uint16_t half = static_cast<std::uint16_t>(word >> 16);
      std::memcpy(&data[at], wide ? static_cast<const void*>(&word) : &half, wide ? 4 : 2);
    }
    return data;
  }
};

// Aligned memory full of 0xff (as floats NaN, as counters -1), with guards before and behind.
class Room {
 public:
  explicit Room(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard + kAlignment, kGuarded) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    first_ = kGuard + (kAlignment - address % kAlignment) % kAlignment;
    std::fill_n(data(), bytes_, kGarbage);
  }
  std::uint8_t* data() { return memory_.data() + first_; }
  Workspace workspace() { return {data(), bytes_}; }
  bool used() {
    return std::any_of(data(), data() + bytes_, [](std::uint8_t x) { return x != kGarbage; });
  }
  bool guards_hold() {
    const auto guarded = [](std::uint8_t x) { return x == kGuarded; };
    return std::all_of(memory_.data(), data(), guarded) &&
           std::all_of(data() + bytes_, memory_.data() + memory_.size(), guarded);
  }

 private:
  static constexpr std::size_t kGuard = 4096, kAlignment = 256;
  static constexpr std::uint8_t kGarbage = 0xff, kGuarded = 0xa5;
  std::size_t bytes_, first_ = 0;
  Bytes memory_;
};

// The call in exactly the memory that its plan asks for.
Bytes run_in_room(Work& work, tessera::Device device) {
  Room room(work.needs(device));
  room.workspace().put_into(&device);
  Bytes results = work.run(device);
  EXPECT_TRUE(room.used());
  EXPECT_TRUE(room.guards_hold());
  return results;
}

class WorkspaceTest : public testing::TestWithParam<Shape> {};

TEST_P(WorkspaceTest, GivesTheSameBitsAsMemoryOfTheLibrary) {
  Work work(GetParam());
  const tessera::Plan plan = tessera::plan(work.problem, tessera::cpu({.threads = 4}));
  EXPECT_EQ(plan.splits > 1, GetParam().split);
  for (int threads : {1, 2, 4}) {
    const tessera::Device device = tessera::cpu({.threads = threads});
    const Bytes alone = work.run(device);
    for (int n = 0; n < 5; ++n) EXPECT_EQ(run_in_room(work, device), alone) << threads;
  }
}

TEST_P(WorkspaceTest, WorksWithForeignPools) {
  Work work(GetParam());
  const Bytes alone = work.run(tessera::cpu());
  const auto on_threads = [](std::int64_t count, Task task) {
    std::vector<std::jthread> threads;
    for (std::int64_t i = 0; i < count; ++i) threads.emplace_back([=] { task(i); });
  };
  const auto all_twice = [](std::int64_t count, Task task) {  // more threads than there are pieces
    std::vector<std::jthread> threads;
    for (std::int64_t i = 0; i < 2 * count + 3; ++i) threads.emplace_back([=] { task(i % count); });
  };
  const auto again = [](std::int64_t count, Task task) {
    for (std::int64_t i = 0; i < 2 * count; ++i) task(i % count);
  };
  const auto none = [](std::int64_t, Task) {};
  const auto last = [](std::int64_t count, Task task) { task(count - 1); };
  const tessera::Pool pools[] = {on_threads, all_twice, again, none, last};
  for (std::size_t p = 0; p < std::size(pools); ++p)
    for (int threads : {1, 2, 4})
      EXPECT_EQ(run_in_room(work, tessera::cpu({.threads = threads, .pool = pools[p]})), alone) << p;
}

TEST_P(WorkspaceTest, TwoCallsMayBeInFlightInTwo) {
  const Bytes alone = Work(GetParam()).run(tessera::cpu());
  std::vector<std::jthread> callers;
  for (int t = 0; t < 2; ++t) {
    callers.emplace_back([&] {
      Work work(GetParam());
      for (int n = 0; n < 10; ++n) EXPECT_EQ(run_in_room(work, tessera::cpu({.threads = 2})), alone);
    });
  }
}

TEST_P(WorkspaceTest, OneByteTooFewIsRefused) {
  Work work(GetParam());
  for (int threads : {1, 4}) {
    tessera::Device device = tessera::cpu({.threads = threads});
    const std::size_t needed = work.needs(device);
    Room room(needed - 1);
    room.workspace().put_into(&device);
    work.clear();
    const tessera::Status status = tessera::attend(work.problem, device);
    EXPECT_EQ(status.code(), TESSERA_INVALID_ARGUMENT);
    EXPECT_EQ(status.message(),
              fmt::format("device.workspace_bytes is {}; {} are needed", needed - 1, needed));
    EXPECT_TRUE(work.untouched());
    EXPECT_FALSE(room.used());
    device.workspace = nullptr;  // as a budget it is as small
    EXPECT_EQ(tessera::plan(work.problem, device).status.message(), status.message());
  }
}

TEST_P(WorkspaceTest, MoreThanNeededIsLeftAlone) {
  Work work(GetParam());
  tessera::Device device = tessera::cpu({.threads = 2});
  const Bytes alone = work.run(device);
  const std::size_t needed = work.needs(device);
  Room room(needed + 5000);
  room.workspace().put_into(&device);
  EXPECT_EQ(work.run(device), alone);
  EXPECT_TRUE(std::all_of(room.data() + needed, room.data() + needed + 5000,
                          [](std::uint8_t x) { return x == 0xff; }));
}

std::string test_name(const testing::TestParamInfo<Shape>& param) { return param.param.name; }
INSTANTIATE_TEST_SUITE_P(Shapes, WorkspaceTest, testing::ValuesIn(kShapes), test_name);

// A program built before there were workspaces passes a shorter struct, with whatever it likes behind it.
TEST(Workspace, IsNotLookedForInAnOlderStruct) {
  Work work(kShapes[0]);
  const Bytes alone = work.run(tessera::cpu());
  tessera::Device device = tessera::cpu();
  device.struct_size = offsetof(tessera_device, workspace);
  std::memset(&device.workspace, 0xc3, sizeof device - offsetof(tessera_device, workspace));
  EXPECT_EQ(work.run(device), alone);
  const tessera::Plan plan = tessera::plan(work.problem, device);
  EXPECT_TRUE(plan.status) << plan.status.message();
  device.struct_size = sizeof device;  // looked for here
  EXPECT_EQ(tessera::attend(work.problem, device).code(), TESSERA_INVALID_ARGUMENT);
}

// A thread remembers plans: none may answer for a call with more or less room, or with bad memory.
TEST(Workspace, EveryCallIsJudgedByItsOwn) {
  Work work(kShapes[3]);
  const tessera::Device without = tessera::cpu({.threads = 2});
  const Bytes alone = work.run(without);
  const std::size_t needed = work.needs(without);
  EXPECT_EQ(tessera::plan(work.problem, without).workspace_bytes, static_cast<std::int64_t>(needed));
  Room rooms[] = {Room(needed), Room(needed), Room(needed + 256)};
  const auto in = [&](Workspace workspace) { return tessera::cpu({.threads = 2, .workspace = workspace}); };
  const auto refused = [&](Workspace workspace, const std::string& words) {
    work.clear();
    const tessera::Status status = tessera::attend(work.problem, in(workspace));
    EXPECT_EQ(status.code(), TESSERA_INVALID_ARGUMENT);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    EXPECT_TRUE(work.untouched());
  };
  for (int n = 0; n < 3; ++n) {
    for (Room& room : rooms) {
      EXPECT_EQ(work.run(in(room.workspace())), alone);
      EXPECT_EQ(work.run(without), alone);
      EXPECT_TRUE(room.used() && room.guards_hold());
    }
    refused({rooms[0].data(), needed - 1}, fmt::format("is {}; {} are needed", needed - 1, needed));
    refused({rooms[2].data() + 8, needed}, "a multiple of 256 is accepted");
    refused({nullptr, needed}, "device.workspace is null");
    refused({rooms[0].data(), 0}, "device.workspace_bytes is 0");
    for (std::size_t budget : {needed, needed + 1, SIZE_MAX})
      EXPECT_EQ(tessera::plan(work.problem, in({.bytes = budget})).workspace_bytes,
                static_cast<std::int64_t>(needed));
    EXPECT_FALSE(tessera::plan(work.problem, in({.bytes = needed - 1})).status);
  }
  // The same plan, over tensors that lie in the workspace.
  Room large(needed + work.o.size() + work.k.size());
  tessera::Attention moved = work.problem;
  moved.output.data = large.data() + needed - 40;
  const tessera::Status output = tessera::attend(moved, in({large.data(), needed}));
  EXPECT_EQ(output.message(), "device.workspace overlaps output in memory");
  moved = work.problem;
  moved.key.data = large.data() + needed - 40;
  const tessera::Status key = tessera::attend(moved, in({large.data(), needed}));
  EXPECT_EQ(key.message(), "device.workspace overlaps key in memory");
  EXPECT_FALSE(large.used());
}

TEST(Workspace, GoesIntoDevicesOfEitherKind) {
  int memory = 0;
  const tessera::Device cpu = tessera::cpu({.workspace = {&memory, 4}});
  const tessera::Device gpu = tessera::cuda(&memory, 1, "name", {&memory, 4});
  for (const tessera::Device& device : {cpu, gpu}) {
    EXPECT_EQ(device.workspace, &memory);
    EXPECT_EQ(device.workspace_bytes, 4u);
  }
  EXPECT_EQ(tessera::cpu().workspace, nullptr);
  EXPECT_EQ(tessera::cuda().workspace_bytes, 0u);
}

}  // namespace
