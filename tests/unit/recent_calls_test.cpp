// Which GPU calls count as repeated: see src/api/recent_calls.hpp.
#include "api/recent_calls.hpp"

#include <gtest/gtest.h>

namespace tessera::api {
namespace {

const core::Kernel kKernel{};

tessera_attention attention(std::uintptr_t first_address) {
  tessera_attention a = TESSERA_ATTENTION_INIT;
  for (tessera_tensor* t : {&a.query, &a.key, &a.value, &a.output}) {
    *t = tessera_tensor_4d(reinterpret_cast<void*>(first_address), TESSERA_F16, 1, 2, 64, 64);
    first_address += 0x100000;
  }
  return a;
}

RecentCalls::Call call_of(std::int64_t queries) {
  RecentCalls::Call call;
  call.problem.queries = queries;
  call.kernel = &kKernel;
  return call;
}

TEST(RecentCalls, FindsTheSameCallAndNoOther) {
  RecentCalls recent;
  const tessera_attention a = attention(0x1000000);
  tessera_device device = TESSERA_DEVICE_INIT;
  EXPECT_EQ(recent.find(a, device), nullptr);
  recent.keep(a, device, call_of(7));
  ASSERT_NE(recent.find(a, device), nullptr);
  EXPECT_EQ(recent.find(a, device)->problem.queries, 7);

  // Every byte counts; what stands in the same place of the table must not be taken for it.
  for (std::size_t at = 0; at < sizeof a; ++at) {
    tessera_attention other = a;
    reinterpret_cast<unsigned char*>(&other)[at] ^= 1;
    EXPECT_EQ(recent.find(other, device), nullptr) << at;
  }
  for (std::size_t at = 0; at < sizeof device; ++at) {
    if (at >= offsetof(tessera_device, kernel) && at < offsetof(tessera_device, run_tasks)) continue;
    tessera_device other = device;
    reinterpret_cast<unsigned char*>(&other)[at] ^= 1;
    EXPECT_EQ(recent.find(a, other), nullptr) << at;
  }
}

TEST(RecentCalls, LooksAtTheKernelsNameAndNotOnlyWhereItStands) {
  RecentCalls recent;
  const tessera_attention a = attention(0x1000000);
  char name[] = "sm90";
  tessera_device device = TESSERA_DEVICE_INIT;
  device.kernel = name;
  recent.keep(a, device, call_of(1));
  EXPECT_NE(recent.find(a, device), nullptr);
  name[2] = '8';
  EXPECT_EQ(recent.find(a, device), nullptr);
  device.kernel = nullptr;
  EXPECT_EQ(recent.find(a, device), nullptr);
}

TEST(RecentCalls, ForgetsWhatFailedAndWhatWasReplaced) {
  RecentCalls recent;
  const tessera_device device = TESSERA_DEVICE_INIT;
  const tessera_attention a = attention(0x1000000);
  recent.keep(a, device, call_of(1));
  recent.forget(a, device);
  EXPECT_EQ(recent.find(a, device), nullptr);
  constexpr std::uintptr_t kMany = 10 * RecentCalls::kPlaces;
  for (std::uintptr_t n = 1; n <= kMany; ++n)
    recent.keep(attention(n * 0x10000000), device, call_of(static_cast<std::int64_t>(n)));
  std::size_t left = 0;
  for (std::uintptr_t n = 1; n <= kMany; ++n) {
    const RecentCalls::Call* const call = recent.find(attention(n * 0x10000000), device);
    if (call == nullptr) continue;
    EXPECT_EQ(call->problem.queries, static_cast<std::int64_t>(n));
    ++left;
  }
  EXPECT_GT(left, 0u);
  EXPECT_LE(left, RecentCalls::kPlaces);
}

}  // namespace
}  // namespace tessera::api
