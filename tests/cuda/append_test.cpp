// New keys and values, and RoPE, on a GPU, bit for bit: what is stored is what tessera.h says
// (append_calls.hpp), and the CPU stores the same; nothing else is written, around the tensors neither; and
// attention over it has the bits that it has when rows were stored and the query turned beforehand. That
// those are right, list_test says.
#include <fmt/format.h>

#include <cmath>
#include <thread>

#include "append_calls.hpp"

namespace tessera::testing_append {
namespace {

using testing_cuda::gpu_device;
using testing_cuda::no_gpu;

std::vector<Spec> specs() {
  std::vector<Spec> all;
  const auto add = [&](const char* name, const auto& change) {
    Spec s;
    s.name = name;
    s.rows = {1, 1, 1};
    s.lengths = {7, 40, 1};
    change(s);
    all.push_back(s);
  };
  const auto ragged = [](Spec& s) {
    s.ragged = true;
    s.rows = {1, 0, 5, 1, 3, 7};
    s.lengths = {17, 20, 5, 40, 30, 4};  // of the last, three rows stand before key 0
  };
  add("lengths", [](Spec&) {});
  add("dense", [](Spec& s) { s.no_lengths = true, s.rows = {3, 3}; });
  add("rope_halves", [](Spec& s) { s.pairs = 32; });
  add("rope_alone", [](Spec& s) { s.pairs = 32, s.stores = false; });
  add("rope_neighbours", [](Spec& s) { s.pairs = 32, s.interleaved = true, s.dtype = TESSERA_F16; });
  add("rope_part", [](Spec& s) { s.pairs = 8, s.first = 16, s.rows = {3, 3, 3}; });
  add("rope_part_neighbours", [](Spec& s) { s.pairs = 12, s.first = 8, s.interleaved = true; });
  add("rope_odd", [](Spec& s) { s.pairs = 5, s.first = 3, s.dtype = TESSERA_F16, s.rows = {2, 2, 2}; });
  add("rope_odd_neighbours", [](Spec& s) { s.pairs = 5, s.first = 3, s.interleaved = true; });
  add("rope_all_but_one", [](Spec& s) { s.pairs = 31, s.first = 1; });
  add("rope_angles_apart", [](Spec& s) { s.pairs = 16, s.pad = 8, s.wide_numbers = true; });
  add("rope_angles_unaligned", [](Spec& s) { s.pairs = 16, s.pad = 1; });
  add("wild_f16", [](Spec& s) { s.pairs = 32, s.dtype = TESSERA_F16, s.wild = true, s.rows = {3, 3, 3}; });
  add("wild_bf16", [](Spec& s) { s.pairs = 31, s.wild = true, s.rows = {3, 3, 3}; });
  add("f32", [](Spec& s) { s.dtype = TESSERA_F32, s.pairs = 8, s.wild = true, s.rows = {3, 3, 3}; });
  add("f32_neighbours",
      [](Spec& s) { s.dtype = TESSERA_F32, s.pairs = 10, s.first = 4, s.interleaved = true; });
  add("f32_odd",
      [](Spec& s) { s.dtype = TESSERA_F32, s.pairs = 3, s.first = 1, s.dim = 33, s.value_dim = 5; });
  add("heads_inside", [](Spec& s) { s.heads_inside = true, s.pairs = 32, s.rows = {3, 3, 3}; });
  add("odd_dims", [](Spec& s) { s.dim = 36, s.value_dim = 20, s.pairs = 9; });
  add("shifted", [](Spec& s) { s.shift = 1, s.pairs = 32; });
  add("padded", [](Spec& s) { s.pad = 3, s.pairs = 32; });
  add("large_dims",
      [](Spec& s) { s.dim = 1024, s.value_dim = 1024, s.heads = 2, s.kv_heads = 1, s.pairs = 512; });
  add("few_heads",
      [](Spec& s) { s.heads = s.kv_heads = 1, s.dim = s.value_dim = 8, s.rows = {1}, s.lengths = {3}; });
  add("positions", [](Spec& s) { s.pairs = 32, s.positions = true, s.rows = {3, 3, 3}; });
  add("positions_i64", [](Spec& s) {
    s.pairs = 32, s.positions = s.wide_numbers = true, s.rows = {2, 2, 2};
  });
  add("in_key", [](Spec& s) {
    s.in_key = true, s.kv_heads = 1, s.dim = 96, s.value_dim = 64, s.pairs = 16, s.first = 64;
  });
  for (const std::int64_t page : {1, 5, 16, 64}) {
    add("", [&](Spec& s) {
      s.name = fmt::format("pages_of_{}", page);
      s.page = page, s.capacity = (40 + page - 1) / page * page, s.pairs = 32;
      s.in_key = page == 5;
    });
    add("", [&](Spec& s) {
      ragged(s);
      s.name = fmt::format("ragged_pages_of_{}", page);
      s.page = page, s.capacity = (40 + page - 1) / page * page, s.pairs = 16;
      s.rows_before = 2, s.rows_after = 3;
      s.wide_numbers = page == 16, s.positions = page == 1;
      s.interleaved = page == 64;
    });
  }
  add("ragged", [&](Spec& s) { ragged(s), s.pairs = 32; });
  add("ragged_f32", [&](Spec& s) { ragged(s), s.dtype = TESSERA_F32, s.pairs = 4, s.rows_after = 4; });
  add("ragged_without_rope", [&](Spec& s) { ragged(s), s.rows_before = 3; });
  add("ragged_prompt", [&](Spec& s) {
    s.ragged = true, s.rows = {70, 1}, s.lengths = {130, 9}, s.capacity = s.angles = 160, s.page = 16,
    s.pairs = 32;
  });
  add("no_rows", [&](Spec& s) {
    ragged(s), s.rows = {0, 0}, s.lengths = {3, 0}, s.rows_after = 2, s.pairs = 32;
  });
  for (const std::int64_t entries : {31, 32, 33, 64, 65, 1000}) {
    add("", [&](Spec& s) {
      s.name = fmt::format("entries_{}", entries);
      s.ragged = true, s.heads = s.kv_heads = 1, s.dim = s.value_dim = 16, s.capacity = 4, s.pairs = 8;
      s.rows.clear(), s.lengths.clear();
      for (std::int64_t n = 0; n < entries; ++n)
        s.rows.push_back(n % 3 == 1 ? 0 : 1), s.lengths.push_back(n % 5);
    });
  }
  for (const tessera_dtype dtype : {TESSERA_F8E4M3, TESSERA_F8E5M2}) {
    const std::string kind = tessera_dtype_name(dtype);
    add("", [&](Spec& s) { s.name = kind, s.dtype = dtype; });
    add("", [&](Spec& s) { s.name = kind + "_odd", s.dtype = dtype, s.dim = 24, s.value_dim = 7; });
    add("", [&](Spec& s) { s.name = kind + "_transposed", s.dtype = dtype, s.transposed = true, s.pad = 2; });
    add("", [&](Spec& s) {
      ragged(s);
      s.name = kind + "_transposed_pages", s.dtype = dtype, s.transposed = true, s.page = 16, s.capacity = 48;
    });
  }
  // What does not fit.
  add("bad_lengths", [](Spec& s) { s.bad = true, s.lengths = {-1, 41, 9}, s.pairs = 32; });
  add("bad_lengths_i64", [](Spec& s) {
    s.bad = s.wide_numbers = true, s.lengths = {-(std::int64_t{1} << 40), (std::int64_t{1} << 32) + 5, 9},
    s.pairs = 32;
  });
  add("bad_lengths_of_pages",
      [&](Spec& s) { ragged(s), s.bad = true, s.page = 8, s.lengths = {41, 20, -5, 40, 30, 7}; });
  add("bad_pages", [&](Spec& s) {
    ragged(s), s.bad = true, s.page = 4, s.pairs = 32;
    s.rows[0] = 9, s.lengths[0] = 17, s.bad_pages = {0, 4, 2, -1, 1 << 30};
  });
  add("bad_positions", [](Spec& s) { s.bad = s.positions = true, s.pairs = 32, s.rows = {3, 3, 3}; });
  add("bad_positions_i64", [](Spec& s) {
    s.bad = s.positions = s.wide_numbers = true, s.pairs = 32, s.rows = {3, 3, 3};
  });
  add("beyond_the_angles", [](Spec& s) { s.bad = true, s.angles = 4, s.pairs = 32, s.rows = {3, 3, 3}; });
  return all;
}

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

// Before every kernel that there is, for both kinds of batches.
TEST(AppendBefore, EveryKernel) {
  SKIP_WITHOUT_GPU();
  int ran = 0;
  for (const tessera_device& device : testing_cuda::kernels_here()) {
    for (Spec s : {small(), small_pages()}) {
      for (const tessera_dtype dtype : {TESSERA_F16, TESSERA_F32, TESSERA_F8E4M3}) {
        s.dtype = dtype;
        if (dtype == TESSERA_F8E4M3) s.pairs = 0;
        Call call(s, 3);
        There there(call);
        tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
        if (tessera_plan(&there.problem, &device, &plan) == TESSERA_UNSUPPORTED) continue;
        const Expected expected(call, device);
        ASSERT_EQ(tessera_attend(&there.problem, &device), TESSERA_OK) << tessera_last_error();
        expected.expect(there, device.kernel);
        ++ran;
      }
    }
  }
  EXPECT_GT(ran, 10);
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
  Chain(const Spec& s, const std::vector<int>& lengths) {
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
      expected.emplace_back(calls[n], gpu_device());
    }
  }
};

// Calls one behind the other on a stream, with nothing in between: each waits for what those before it read
// and write, turned queries in the stream's memory among them.
TEST(AppendChain, CallsInARowSeeWhatThoseBeforeStored) {
  SKIP_WITHOUT_GPU();
  Spec decode = small();
  decode.rows = {1, 1};
  for (const Spec& s : {small(), decode, small_pages()}) {
    Chain chain(s, {0, -1, 0, 0, -3, -3, -2});
    std::vector<There> there;
    there.reserve(chain.calls.size());
    for (Call& call : chain.calls) {
      there.emplace_back(call);
      for (const TensorId id : {TensorId::key, TensorId::value}) {
        const tessera_attention& first = there[0].problem;
        (id == TensorId::key ? there.back().problem.key : there.back().problem.value).data =
            id == TensorId::key ? first.key.data : first.value.data;
      }
    }
    gpu::Stream stream;
    ASSERT_TRUE(gpu::Stream::create(0, &stream).ok());
    tessera_device device = gpu_device();
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
}

// A graph, captured once, is replayed as lengths grow: what changes from step to step is in device memory.
TEST(AppendGraph, OneServesEveryLength) {
  SKIP_WITHOUT_GPU();
  for (const Spec& s : {small(), small_pages()}) {
    Chain chain(s, {0, -18, -15, -14, -14, -7, 0});
    There there(chain.calls[0]);
    gpu::Stream stream;
    ASSERT_TRUE(gpu::Stream::create(0, &stream).ok());
    tessera_device device = gpu_device();
    device.stream = stream.get();
    gpu::Graph graph;
    const core::Status captured = gpu::Graph::capture(
        stream,
        [&] {
          return tessera_attend(&there.problem, &device) == TESSERA_OK
                     ? core::Status{}
                     : core::Status{TESSERA_INTERNAL, tessera_last_error()};
        },
        &graph);
    ASSERT_TRUE(captured.ok()) << captured.message;
    expect_same("captured", there.bytes(TensorId::key), chain.calls[0].of[TensorId::key].bytes);
    for (std::size_t n = 0; n < chain.calls.size(); ++n) {
      there.call.of = chain.calls[n].of;
      for (const TensorId id : {TensorId::query, TensorId::new_key, TensorId::new_value,
                                TensorId::key_lengths, TensorId::rope_cos, TensorId::rope_sin})
        there.send(id);
      ASSERT_TRUE(graph.replay(stream).ok() && stream.synchronize().ok());
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
