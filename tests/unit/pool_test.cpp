// Calls on threads that are not the library's: pools of the user's, and threads with little stack.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <tessera/tessera.hpp>
#include <thread>
#include <vector>

namespace {

using tessera::Task;

// A problem with memory of its own; the second kind is so long that its keys are split between tasks.
struct Work {
  Work(long batch, long heads, long queries, long keys)
      : q(random(batch * heads * queries, 1)),
        k(random(batch * heads * keys, 2)),
        v(random(batch * heads * keys, 3)),
        o(q.size()),
        lse(static_cast<std::size_t>(batch * heads * queries)),
        problem{.query = tessera::tensor(q.data(), {batch, heads, queries, kDim}),
                .key = tessera::tensor(k.data(), {batch, heads, keys, kDim}),
                .value = tessera::tensor(v.data(), {batch, heads, keys, kDim}),
                .output = tessera::tensor(o.data(), {batch, heads, queries, kDim}),
                .lse = tessera::tensor(lse.data(), {batch, heads, queries}),
                .mask = tessera::causal_bottom_right()} {}
  static Work prefill() { return {2, 4, 150, 170}; }
  static Work decode() { return {1, 2, 1, 9000}; }

  // Output and lse of one call, over memory that held something else.
  std::vector<float> run(const tessera::Device& device) {
    std::fill(o.begin(), o.end(), -7.0f);
    std::fill(lse.begin(), lse.end(), -7.0f);
    tessera::Status status = tessera::attend(problem, device);
    EXPECT_TRUE(status) << status.message();
    std::vector<float> results = o;
    results.insert(results.end(), lse.begin(), lse.end());
    return results;
  }

  static constexpr long kDim = 40;
  std::vector<float> q, k, v, o, lse;
  tessera::Attention problem;

 private:
  static std::vector<float> random(long rows, unsigned seed) {
    std::mt19937 bits(seed);
    std::normal_distribution<float> normal;
    std::vector<float> data(static_cast<std::size_t>(rows * kDim));
    for (float& x : data) x = normal(bits);
    return data;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A new thread for every task but the last, which the caller runs; remembers who ran something.
struct ThreadEach {
  void operator()(std::int64_t count, Task task) {
    calls += 1;
    most = std::max(most.load(), count);
    std::vector<std::thread> threads;
    for (std::int64_t i = 0; i + 1 < count; ++i) threads.emplace_back([=] { task(i); });
    task(count - 1);
    for (std::thread& each : threads) each.join();
  }
  std::atomic<int> calls{0};
  std::atomic<std::int64_t> most{0};
};

TEST(ForeignPool, GivesTheSameBitsAsOurOwn) {
  for (Work work : {Work::prefill(), Work::decode()}) {
    const std::vector<float> ours = work.run(tessera::cpu({.threads = 3}));
    for (int threads : {2, 3, 16}) {
      ThreadEach pool;
      EXPECT_TRUE(same_bits(work.run(tessera::cpu({.threads = threads, .pool = pool})), ours)) << threads;
      EXPECT_EQ(pool.calls, 1);
      EXPECT_GE(pool.most, 2);
      EXPECT_LE(pool.most, threads);
    }
  }
}

TEST(ForeignPool, MayRunTasksOneByOneInAnyOrder) {
  Work work = Work::prefill();
  const std::vector<float> ours = work.run(tessera::cpu({.threads = 1}));
  std::vector<std::int64_t> seen;
  const auto backwards = [&](std::int64_t count, Task task) {
    for (std::int64_t i = count - 1; i >= 0; --i) {
      task(i);
      seen.push_back(i);
    }
  };
  EXPECT_TRUE(same_bits(work.run(tessera::cpu({.threads = 4, .pool = backwards})), ours));
  EXPECT_EQ(seen, (std::vector<std::int64_t>{3, 2, 1, 0}));
}

TEST(ForeignPool, MayLeaveTheCallerOut) {
  Work work = Work::decode();
  const std::vector<float> ours = work.run(tessera::cpu());
  std::set<std::thread::id> callers;
  const auto elsewhere = [&](std::int64_t count, Task task) {
    std::thread other([&] {
      callers.insert(std::this_thread::get_id());
      for (std::int64_t i = 0; i < count; ++i) task(i);
    });
    other.join();
  };
  EXPECT_TRUE(same_bits(work.run(tessera::cpu({.threads = 2, .pool = elsewhere})), ours));
  EXPECT_EQ(callers.count(std::this_thread::get_id()), 0u);
  EXPECT_EQ(callers.size(), 1u);
}

TEST(ForeignPool, MayDropTasksOrRunThemTwice) {
  Work work = Work::prefill();
  const std::vector<float> ours = work.run(tessera::cpu());
  const auto none = [](std::int64_t, Task) {};
  const auto last = [](std::int64_t count, Task task) { task(count - 1); };
  const auto twice = [](std::int64_t count, Task task) {
    for (std::int64_t i = 0; i < 2 * count; ++i) task(i % count);
  };
  EXPECT_TRUE(same_bits(work.run(tessera::cpu({.threads = 4, .pool = none})), ours));
  EXPECT_TRUE(same_bits(work.run(tessera::cpu({.threads = 4, .pool = last})), ours));
  EXPECT_TRUE(same_bits(work.run(tessera::cpu({.threads = 4, .pool = twice})), ours));
}

// A pool may take up another call while a thread of its own waits in the first: here before, between and
// after the tasks of the outer call, on the same thread, and with larger scratch memory than the outer one's.
TEST(ForeignPool, CallsMayBeNested) {
  Work outer = Work::decode(), inner = Work::prefill();
  const std::vector<float> outer_alone = outer.run(tessera::cpu()), inner_alone = inner.run(tessera::cpu());
  ThreadEach each;
  int nested = 0;
  const auto busy = [&](std::int64_t count, Task task) {
    for (std::int64_t i = 0; i <= count; ++i) {
      EXPECT_TRUE(same_bits(inner.run(tessera::cpu({.threads = 2, .pool = each})), inner_alone));
      nested += 1;
      if (i < count) task(i);
    }
  };
  std::vector<float> results;
  // On a thread of its own: one whose scratch memory is not there yet.
  std::thread([&] { results = outer.run(tessera::cpu({.threads = 3, .pool = busy})); }).join();
  EXPECT_TRUE(same_bits(results, outer_alone));
  EXPECT_EQ(nested, 4);
}

TEST(ForeignPool, ManyThreadsMayShareOne) {
  Work work = Work::prefill();
  const std::vector<float> ours = work.run(tessera::cpu());
  ThreadEach pool;
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      Work own = Work::prefill();
      for (int n = 0; n < 3; ++n)
        EXPECT_TRUE(same_bits(own.run(tessera::cpu({.threads = 2, .pool = pool})), ours));
    });
  }
  for (std::thread& each : callers) each.join();
  EXPECT_EQ(pool.calls, 12);
}

TEST(ForeignPool, IsNotCalledWhereOneThreadIsEnough) {
  ThreadEach pool;
  Work work = Work::prefill(), tiny(1, 1, 1, 5);
  work.run(tessera::cpu({.threads = 1, .pool = pool}));
  tiny.run(tessera::cpu({.threads = 8, .pool = pool}));  // one task
  EXPECT_EQ(pool.calls, 0);
}

// A program built before there were run_tasks passes a shorter struct, with whatever it likes behind it.
TEST(ForeignPool, IsNotLookedForInAnOlderStruct) {
  static_assert(sizeof(void*) != 8 || offsetof(tessera_device, run_tasks) == 40);
  static_assert(sizeof(void*) != 8 || offsetof(tessera_device, workspace) == 56);
  Work work = Work::prefill();
  ThreadEach pool;
  tessera_device device = tessera::cpu({.threads = 4, .pool = pool});
  device.struct_size = offsetof(tessera_device, run_tasks);
  const tessera_attention problem = work.problem.to_c();
  ASSERT_EQ(tessera_attend(&problem, &device), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(pool.calls, 0);
  device.struct_size = sizeof device;
  ASSERT_EQ(tessera_attend(&problem, &device), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(pool.calls, 1);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// Runs body on a thread with a stack of `bytes` and returns how much of it was touched, thread-local
// variables included: the C library takes those from the same memory.
std::size_t stack_used(std::size_t bytes, const std::function<void()>& body) {
  constexpr unsigned char kPaint = 0xa5;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return 0;
  std::memset(memory, kPaint, bytes);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, memory, bytes);
  pthread_t thread;
  const auto start = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  const int failed =
      pthread_create(&thread, &attributes, start, const_cast<void*>(static_cast<const void*>(&body)));
  if (failed == 0) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  const auto* const first = static_cast<const unsigned char*>(memory);
  const auto* const touched =
      std::find_if(first, first + bytes, [=](unsigned char b) { return b != kPaint; });
  const std::size_t used = failed == 0 ? static_cast<std::size_t>(first + bytes - touched) : 0;
  munmap(memory, bytes);
  return used;
}

// docs/api.md promises this much.
constexpr std::size_t kPromisedStack = 48 << 10;

TEST(Stack, ACallFitsInWhatIsPromised) {
  if (kSanitized) GTEST_SKIP() << "skipped: sanitizers put red zones and shadow calls on the stack";
  const std::size_t empty = stack_used(1 << 20, [] {});
  ASSERT_GT(empty, 0u);
  std::size_t most = 0;
  for (const char* kernel : {static_cast<const char*>(nullptr), "cpu_scalar"}) {
    for (int threads : {1, 2}) {
      for (Work work : {Work::prefill(), Work::decode(), Work(1, 1, 5, 30)}) {
        for (float softcap : {0.0f, 30.0f}) {
          work.problem.softcap = softcap;
          const std::size_t used = stack_used(1 << 20, [&] {
            work.run(tessera::cpu({.threads = threads, .kernel = kernel}));
            tessera::explain(work.problem, tessera::cpu({.threads = threads, .kernel = kernel}));
          });
          most = std::max(most, used);
        }
      }
    }
  }
  std::printf("stack: %zu bytes at most, %zu of them before the call\n", most, empty);
  EXPECT_LE(most, kPromisedStack);
}

TEST(Stack, ACallRunsOnAThreadOfThatSize) {
  if (kSanitized) GTEST_SKIP() << "skipped: sanitizers put red zones and shadow calls on the stack";
  Work work = Work::prefill();
  const std::vector<float> ours = work.run(tessera::cpu());
  bool same = false;
  ASSERT_GT(stack_used(kPromisedStack, [&] { same = same_bits(work.run(tessera::cpu()), ours); }), 0u);
  EXPECT_TRUE(same);
}

}  // namespace
