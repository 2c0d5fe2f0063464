// New keys and values, and RoPE, on a GPU, bit for bit: what is stored is what tessera.h says
// (append_calls.hpp), and the CPU stores the same; nothing else is written, around the tensors neither; and
// attention over it has the bits that it has when rows were stored and the query turned beforehand. That
// those are right, list_test says.
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "append_specs.hpp"
#include "cuda/append/dispatch.hpp"
#include "on_device.hpp"
#include "pretend.hpp"

namespace tessera::testing_append {
namespace {

using testing_cuda::Captured;
using testing_cuda::gpu_device;
using testing_cuda::no_gpu;
using testing_cuda::status_of;

// Inputs stay as they were.
void expect_untouched(const There& there) {
  for (const core::TensorField& field : core::kTensorFields.values) {
    const bool cache = field.id == TensorId::key || field.id == TensorId::value;
    if (!there.call.of[field.id] || field.written || (cache && there.call.s.stores)) continue;
    expect_same(std::string(field.name), there.bytes(field.id), there.call.of[field.id].bytes);
  }
}

class Append : public testing::TestWithParam<Spec> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GPU(); }
};

TEST_P(Append, StoresAndTurnsWhatTheHeaderSays) {
  Call call(GetParam(), 1);
  const tessera_device device = gpu_device();
  const Expected expected(call, device);
  There there(call);
  ASSERT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
  expected.expect(there, "first");
  expect_untouched(there);
  // Once more: the same rows to the same places.
  ASSERT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
  expected.expect(there, "again");
}

class AppendHere : public testing::TestWithParam<Spec> {};

TEST_P(AppendHere, TheCpuStoresTheSame) {
  Call call(GetParam(), 1);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  const tessera_attention problem = call.here();
  if (call.s.bad) {
    EXPECT_EQ(tessera_attend(&problem, &cpu), TESSERA_INVALID_ARGUMENT);
    return;
  }
  Call stored = call;
  stored.append();
  ASSERT_EQ(tessera_attend(&problem, &cpu), TESSERA_OK) << tessera_last_error();
  expect_same("key", call.of[TensorId::key].bytes, stored.of[TensorId::key].bytes);
  expect_same("value", call.of[TensorId::value].bytes, stored.of[TensorId::value].bytes);
}

std::string name_of(const testing::TestParamInfo<Spec>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Specs, Append, testing::ValuesIn(specs()), name_of);
INSTANTIATE_TEST_SUITE_P(Specs, AppendHere, testing::ValuesIn(specs()), name_of);

Spec small() {
  Spec s;
  s.rows = {3, 3};
  s.lengths = {21, 40};
  s.pairs = 32;
  return s;
}
Spec small_pages() {
  Spec s = small();
  s.ragged = true;
  s.page = 16;
  s.capacity = 48;
  return s;
}

// f(spec, device) for every kernel that there is, and what it takes of these.
template <class F>
void for_kernels(const std::vector<Spec>& specs, const F& f) {
  int ran = 0;
  for (const tessera_device& device : testing_cuda::kernels_here()) {
    for (Spec s : specs) {
      for (const tessera_dtype dtype : {TESSERA_F16, TESSERA_F32, TESSERA_F8E4M3}) {
        s.dtype = dtype;
        if (dtype == TESSERA_F8E4M3) s.pairs = 0;
        Call call(s, 3);
        There there(call);
        tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
        if (tessera_plan(&there.problem, &device, &plan) == TESSERA_UNSUPPORTED) continue;
        f(s, device);
        ++ran;
      }
    }
  }
  EXPECT_GT(ran, 10);
}

TEST(AppendBefore, EveryKernel) {
  SKIP_WITHOUT_GPU();
  for_kernels({small(), small_pages()}, [](const Spec& s, const tessera_device& device) {
    Call call(s, 3);
    const Expected expected(call, device);
    There there(call);
    ASSERT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
    expected.expect(there, device.kernel);
  });
}

TEST(AppendWorkspace, IsWhatThePlanSaysAndNothingBeyondIsTouched) {
  SKIP_WITHOUT_GPU();
  for (const Spec& s : {small(), small_pages()}) {
    Call call(s, 4);
    tessera_device device = gpu_device();
    const Expected expected(call, device);
    There there(call);
    tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
    ASSERT_EQ(tessera_plan(&there.problem, &device, &plan), TESSERA_OK) << tessera_last_error();
    const auto bytes = static_cast<std::size_t>(plan.workspace_bytes);
    ASSERT_GE(bytes, static_cast<std::size_t>(2 * 4 * 3 * 64 * 2));  // the turned query
    gpu::Memory memory;
    ASSERT_TRUE(gpu::Memory::allocate(0, bytes + kGuard, &memory).ok());
    ASSERT_TRUE(memory.fill(0xff, bytes + kGuard).ok());
    device.workspace = memory.data();
    device.workspace_bytes = bytes - 1;
    EXPECT_EQ(tessera_attend(&there.problem, &device), TESSERA_INVALID_ARGUMENT);
    device.workspace_bytes = bytes;
    ASSERT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
    expected.expect(there, "workspace");
    std::vector<unsigned char> guard(kGuard);
    ASSERT_TRUE(memory.download(guard.data(), kGuard, bytes).ok());
    expect_same("guard", guard, std::vector<unsigned char>(kGuard, 0xff));
  }
}

// Steps of a chain: tensors of their own, but for the caches.
struct Chain {
  std::vector<Call> calls;
  std::vector<Expected> expected;

  // Of each step, what to add to every length.
  Chain(const Spec& s, const std::vector<int>& lengths, const tessera_device& device = gpu_device()) {
    calls.reserve(lengths.size());
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      Spec step = s;
      for (std::int64_t& length : step.lengths) length += lengths[n];
      calls.emplace_back(step, static_cast<unsigned>(10 + n));
      if (n > 0) {
        for (const TensorId id : {TensorId::key, TensorId::value, TensorId::page_table})
          calls[n].of[id] = calls[0].of[id];
        calls[n].of[TensorId::key].bytes = expected[n - 1].key;
        calls[n].of[TensorId::value].bytes = expected[n - 1].value;
      }
      expected.emplace_back(calls[n], device);
    }
  }
};

// Calls one behind the other on a stream, with nothing in between: each waits for what those before it read
// and write, turned queries in the stream's memory among them.
void expect_chain(const Spec& s, const std::vector<int>& lengths, tessera_device device) {
  Chain chain(s, lengths, device);
  std::vector<There> there;
  there.reserve(chain.calls.size());
  for (Call& call : chain.calls) {
    there.emplace_back(call);
    there.back().problem.key.data = there[0].problem.key.data;
    there.back().problem.value.data = there[0].problem.value.data;
  }
  gpu::Stream stream;
  ASSERT_TRUE(gpu::Stream::create(0, &stream).ok());
  device.stream = stream.get();
  for (There& step : there)
    ASSERT_EQ(tessera_attend(&step.problem, &device), TESSERA_OK) << tessera_last_error();
  ASSERT_TRUE(stream.synchronize().ok());
  for (std::size_t n = 0; n < there.size(); ++n) {
    expect_same(fmt::format("output {}", n), there[n].bytes(TensorId::output), chain.expected[n].output);
    expect_same(fmt::format("lse {}", n), there[n].bytes(TensorId::lse), chain.expected[n].lse);
  }
  expect_same("key", there[0].bytes(TensorId::key), chain.expected.back().key);
  expect_same("value", there[0].bytes(TensorId::value), chain.expected.back().value);
}

TEST(AppendChain, CallsInARowSeeWhatThoseBeforeStored) {
  SKIP_WITHOUT_GPU();
  Spec decode = small();
  decode.rows = {1, 1};
  for (const Spec& s : {small(), decode, small_pages()})
    expect_chain(s, {0, -1, 0, 0, -3, -3, -2}, gpu_device());
}

TEST(AppendChain, WhicheverKernelComputes) {
  SKIP_WITHOUT_GPU();
  Spec full = small();  // no lengths, which some kernels would wait for
  full.no_lengths = true;
  for_kernels({small(), small_pages(), full}, [](const Spec& s, const tessera_device& device) {
    SCOPED_TRACE(device.kernel);
    expect_chain(s, {0, -1, -1, 0}, device);
  });
}

// A graph, captured once, is replayed as lengths grow: what changes from step to step is in device memory.
TEST(AppendGraph, OneServesEveryLength) {
  SKIP_WITHOUT_GPU();
  for (const Spec& s : {small(), small_pages()}) {
    Chain chain(s, {0, -18, -15, -14, -14, -7, 0});
    There there(chain.calls[0]);
    const Captured step(
        [&](const tessera_device& d) { return status_of(tessera_attend(&there.problem, &d)); });
    ASSERT_TRUE(step.status.ok()) << step.status.message;
    expect_same("captured", there.bytes(TensorId::key), chain.calls[0].of[TensorId::key].bytes);
    for (std::size_t n = 0; n < chain.calls.size(); ++n) {
      there.call.of = chain.calls[n].of;
      for (const TensorId id : {TensorId::query, TensorId::new_key, TensorId::new_value,
                                TensorId::key_lengths, TensorId::rope_cos, TensorId::rope_sin})
        there.send(id);
      ASSERT_TRUE(step.replay().ok());
      chain.expected[n].expect(there, fmt::format("replay {}", n));
    }
  }
}

// Threads that share a stream take turns with the memory that it keeps, and none waits for itself.
TEST(AppendThreads, OnOneStreamAndOnTheirOwn) {
  SKIP_WITHOUT_GPU();
  const Call call(small(), 6);
  const Expected expected(call, gpu_device());
  const auto work = [&] {
    Call mine = call;
    There there(mine);
    gpu::Stream stream;
    EXPECT_TRUE(gpu::Stream::create(0, &stream).ok());
    for (int n = 0; n < 4; ++n) {
      tessera_device device = gpu_device();
      device.stream = n % 2 == 0 ? nullptr : stream.get();
      EXPECT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
      EXPECT_TRUE(gpu::synchronize(0).ok());
      expected.expect(there, fmt::format("call {}", n));
    }
  };
  std::vector<std::thread> threads;
  for (int n = 0; n < 3; ++n) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

bool holds(const cuda::runtime::Step& step, const void* address) {
  for (std::size_t n = 0; n + sizeof address <= step.params_bytes; n += sizeof address)
    if (std::memcmp(step.params.data() + n, &address, sizeof address) == 0) return true;
  return false;
}

struct Launched {
  cuda::runtime::Step first, last;
};
// On a GPU that is not here.
Launched launched_for(Call& call) {
  cuda::runtime::Gpu gpu;
  gpu.arch = 90;
  gpu.sms = 132;
  gpu.shared_block_bytes = 227 << 10;
  gpu.shared_sm_bytes = 228 << 10;
  const testing_cuda::Pretend pretend({gpu});
  core::Problem problem;
  core::Plan plan;
  const tessera_attention attention = call.here();
  core::Status status = core::validate(attention, &problem);
  if (status.ok()) status = core::plan(problem, gpu_device(), &plan);
  if (status.ok()) status = plan.prepared->submit(core::addresses_of(attention), gpu_device());
  EXPECT_TRUE(status.ok()) << status.message;
  if (!status.ok()) return {};
  return {pretend.launched().front(), pretend.launched().back()};
}

// One plan serves every call that differs in addresses alone: they are put in when it is submitted, and
// attention gets the turned query in place of the other.
TEST(AppendStep, AddressesArePutInWhenAPlanIsSubmitted) {
  Spec s = small();
  s.positions = true;
  Call call(s, 8);
  const Launched launched = launched_for(call);
  const core::Addresses at = core::addresses_of(call.here());
  for (const TensorId id :
       {TensorId::query, TensorId::key, TensorId::value, TensorId::new_key, TensorId::new_value,
        TensorId::key_lengths, TensorId::rope_cos, TensorId::rope_sin, TensorId::positions})
    EXPECT_TRUE(holds(launched.first, at[id])) << core::kTensorFields[id].name;
  const void* const turned = testing_cuda::Pretend::kOwnMemory;
  EXPECT_TRUE(holds(launched.first, turned));
  EXPECT_TRUE(holds(launched.last, turned));
  EXPECT_FALSE(holds(launched.last, at[TensorId::query]));
  EXPECT_TRUE(launched.first.pdl);
}

TEST(AppendStep, RowsAreMovedBy16BytesWhereTheyLieSo) {
  const auto judge = [](const char* what, bool wide, const auto& change) {
    Spec s = small();
    change(s);
    Call call(s, 9);
    const cuda::Element element = s.dtype == TESSERA_F32      ? cuda::Element::f32
                                  : s.dtype == TESSERA_F8E4M3 ? cuda::Element::e4m3
                                                              : cuda::Element::bf16;
    const cuda::append::Way way = wide ? cuda::append::Way::wide : cuda::append::Way::narrow;
    EXPECT_EQ(launched_for(call).first.function, cuda::append::function_for(element, way)) << what;
  };
  judge("rope", true, [](Spec&) {});
  judge("no rope", true, [](Spec& s) { s.pairs = 0; });
  judge("padded", true, [](Spec& s) { s.pad = 8; });
  judge("neighbours", true, [](Spec& s) { s.interleaved = true, s.pairs = 12, s.first = 8; });
  judge("f32", true, [](Spec& s) { s.dtype = TESSERA_F32, s.pairs = 4, s.first = 12; });
  judge("codes", true, [](Spec& s) { s.dtype = TESSERA_F8E4M3, s.pairs = 0; });
  judge("pages", true, [](Spec& s) { s.ragged = true, s.page = 1; });
  judge("pairs", false, [](Spec& s) { s.pairs = 12; });
  judge("first", false, [](Spec& s) { s.pairs = 8, s.first = 4; });
  judge("odd padding", false, [](Spec& s) { s.pad = 4; });
  judge("shifted", false, [](Spec& s) { s.shift = 1; });
  judge("dim", false, [](Spec& s) { s.dim = 60, s.pairs = 8; });
  judge("transposed", false, [](Spec& s) { s.dtype = TESSERA_F8E4M3, s.pairs = 0, s.transposed = true; });
}

// Key and value in one pool, a page of each by turns, beyond what 32 bits can count.
TEST(AppendPool, BeyondTwoToThe31Elements) {
  SKIP_WITHOUT_GPU();
  constexpr std::int64_t kStride = (std::int64_t{1} << 30) + 64;
  Spec s;
  s.dtype = TESSERA_F8E4M3;
  s.heads = s.kv_heads = 1;
  s.dim = s.value_dim = 16;
  s.rows = {1};
  s.lengths = {1};
  s.page = s.capacity = 1;
  Call call(s, 7);
  There there(call);
  gpu::Memory pool;
  ASSERT_TRUE(gpu::Memory::allocate(0, 2 * kStride + 32, &pool).ok());
  ASSERT_TRUE(pool.fill(0x55, 32, 2 * kStride).ok());
  there.problem.key.data = pool.data();
  there.problem.value.data = pool.data() + 16;
  for (tessera_tensor* t : {&there.problem.key, &there.problem.value}) t->strides[0] = kStride;
  const std::int32_t last = 2;
  ASSERT_EQ(there.problem.key.shape[0], 3);
  ASSERT_TRUE(there.memory[TensorId::page_table].upload(&last, sizeof last, kGuard).ok());
  const tessera_device device = gpu_device();
  ASSERT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
  std::vector<unsigned char> stored(32), wanted(32);
  ASSERT_TRUE(pool.download(stored.data(), 32, 2 * kStride).ok());
  std::memcpy(wanted.data(), call.of[TensorId::new_key].begin(), 16);
  std::memcpy(wanted.data() + 16, call.of[TensorId::new_value].begin(), 16);
  expect_same("stored", stored, wanted);
}

}  // namespace
}  // namespace tessera::testing_append
