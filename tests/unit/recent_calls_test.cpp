// Which calls count as repeated: see src/api/recent_calls.hpp.
#include "api/recent_calls.hpp"

#include <gtest/gtest.h>

namespace tessera::api {
namespace {

const core::Kernel kKernel{};

struct Nothing final : core::Prepared {
  explicit Nothing(std::int64_t items) { work_items = items; }
  std::string words() const override { return ""; }
  core::Status submit(const core::Addresses&, const tessera_device&) const override { return {}; }
};

Request request(std::uintptr_t first_address, std::int64_t queries = 64) {
  Request r;
  r.device.kind = TESSERA_CUDA;
  for (tessera_tensor* t : {&r.attention.query, &r.attention.key, &r.attention.value, &r.attention.output}) {
    *t = tessera_tensor_4d(reinterpret_cast<void*>(first_address), TESSERA_F16, 1, 2, queries, 64);
    first_address += 0x100000;
  }
  return r;
}

core::Plan plan_of(std::int64_t items) { return {&kKernel, std::make_shared<Nothing>(items)}; }

RecentCalls::Call* find(RecentCalls& recent, const Request& r) {
  return recent.find(RecentCalls::Key(r), r.device.kernel);
}
RecentCalls::Call& keep(RecentCalls& recent, const Request& r, std::int64_t items) {
  return recent.keep(RecentCalls::Key(r), r.device.kernel, plan_of(items));
}

std::int64_t items(RecentCalls& recent, const Request& r) {
  const RecentCalls::Call* call = find(recent, r);
  return call == nullptr ? -1 : call->plan.prepared->work_items;
}

TEST(RecentCalls, FindsTheSameCallAndNoOther) {
  RecentCalls recent;
  const Request r = request(0x7f0123450000);
  EXPECT_EQ(find(recent, r), nullptr);
  keep(recent, r, 7);
  EXPECT_EQ(items(recent, r), 7);

  // Every byte counts but those of addresses past their alignment, of the stream and of the workspace's
  // address.
  const auto free = [&](const void* field, std::size_t skip, std::size_t at, const void* base) {
    const auto begin =
        static_cast<std::size_t>(static_cast<const char*>(field) - static_cast<const char*>(base));
    return at >= begin + skip && at < begin + sizeof(void*);
  };
  for (std::size_t at = 0; at < sizeof r.attention; ++at) {
    bool address = false;
    core::for_each_tensor(r.attention, [&](const core::TensorField&, const tessera_tensor& t) {
      address = address || (t.data != nullptr && free(&t.data, 1, at, &r.attention));
    });
    Request other = r;
    reinterpret_cast<unsigned char*>(&other.attention)[at] ^= 1;
    EXPECT_EQ(find(recent, other) != nullptr, address) << at;
  }
  for (std::size_t at = 0; at < sizeof r.device; ++at) {
    if (free(&r.device.kernel, 0, at, &r.device)) continue;  // a string: below
    const bool address =
        free(&r.device.stream, 0, at, &r.device) || free(&r.device.workspace, 0, at, &r.device);
    Request other = r;
    reinterpret_cast<unsigned char*>(&other.device)[at] ^= 1;
    EXPECT_EQ(find(recent, other) != nullptr, address) << at;
  }
  Request other = r;
  other.state = 1;
  EXPECT_EQ(find(recent, other), nullptr);
}

TEST(RecentCalls, OtherAddressesHaveTheSamePlanOtherAlignmentsHaveNot) {
  RecentCalls recent;
  keep(recent, request(0x1000000), 3);
  for (int layer = 0; layer < 64; ++layer)
    EXPECT_EQ(items(recent, request(0x20000000 + 0x1000000 * static_cast<std::uintptr_t>(layer))), 3);
  EXPECT_EQ(find(recent, request(0x1000008)), nullptr);
  Request none = request(0x1000000);
  none.attention.output.data = nullptr;
  EXPECT_EQ(find(recent, none), nullptr);
}

// Kernels that read each key once, as its value too, are not for values of their own.
TEST(RecentCalls, ValuesInKeysAreAnotherCall) {
  RecentCalls recent;
  Request inside = request(0x1000000);
  inside.attention.value.data = inside.attention.key.data;
  const auto moved = [&](std::uintptr_t bytes) {
    Request r = inside;
    r.attention.key.data = r.attention.value.data = static_cast<char*>(inside.attention.key.data) + bytes;
    return r;
  };
  keep(recent, request(0x1000000), 3);
  EXPECT_EQ(find(recent, inside), nullptr);
  keep(recent, inside, 4);
  EXPECT_EQ(items(recent, inside), 4);
  EXPECT_EQ(items(recent, request(0x1000000)), 3);
  EXPECT_EQ(items(recent, moved(0x10000)), 4);
  EXPECT_EQ(find(recent, moved(8)), nullptr);  // of another alignment
}

TEST(RecentCalls, LooksAtTheKernelsNameAndNotOnlyWhereItStands) {
  RecentCalls recent;
  char name[] = "sm90";
  Request r = request(0x1000000);
  r.device.kernel = name;
  keep(recent, r, 1);
  EXPECT_NE(find(recent, r), nullptr);
  name[2] = '8';
  EXPECT_EQ(find(recent, r), nullptr);
  r.device.kernel = nullptr;
  EXPECT_EQ(find(recent, r), nullptr);
}

TEST(RecentCalls, ForgetsWhatFailedAndWhatWasReplaced) {
  RecentCalls recent;
  const Request r = request(0x1000000);
  const RecentCalls::Call& kept = keep(recent, r, 1);
  recent.forget(kept.plan.prepared.get());
  EXPECT_EQ(find(recent, r), nullptr);
  constexpr std::int64_t kMany = 10 * RecentCalls::kPlaces;
  for (std::int64_t n = 1; n <= kMany; ++n) keep(recent, request(0x1000000, n), n);
  std::size_t left = 0;
  for (std::int64_t n = 1; n <= kMany; ++n) {
    const std::int64_t found = items(recent, request(0x1000000, n));
    if (found < 0) continue;
    EXPECT_EQ(found, n);
    ++left;
  }
  EXPECT_GT(left, RecentCalls::kPlaces / 2);
  EXPECT_LE(left, RecentCalls::kPlaces);
  EXPECT_EQ(items(recent, request(0x1000000, kMany)), kMany);  // the last one is there
}

TEST(RecentCalls, RemembersWhichAddressesWereLookedAt) {
  RecentCalls::Call call;
  const Request one = request(0x1000000), two = request(0x3000000);
  const auto hash = [](const Request& r) {
    return RecentCalls::hash_of(core::addresses_of(r.attention), r.device);
  };
  EXPECT_FALSE(call.looked_at(hash(one)));
  call.remember(hash(one));
  EXPECT_TRUE(call.looked_at(hash(one)));
  EXPECT_FALSE(call.looked_at(hash(two)));
  Request streamed = one;
  streamed.device.stream = &call;
  EXPECT_FALSE(call.looked_at(hash(streamed)));
  streamed = one;
  streamed.device.workspace = &call;
  EXPECT_FALSE(call.looked_at(hash(streamed)));
}

}  // namespace
}  // namespace tessera::api
