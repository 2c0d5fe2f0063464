// New rows and rope on the CPU beyond what the list of cases asks: whatever must not matter to the bits
// (threads, a batch, a workspace, an older struct), and a cache that is written step by step.
#include "oracle/append.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "cases/sequences.hpp"
#include "support.hpp"

namespace {

using namespace tessera;
using namespace tessera::cases;
using namespace tessera::testing_cpu;
using Bytes = std::vector<unsigned char>;

const char* const kCases[] = {
    "b3 h4/2 q5 k90 d64 bf16 causal=bottom-right lengths append rope=halves:32",
    "b3 h4/2 q40 k200 d40 f32 causal=bottom-right ragged lengths pages=16 append rope=interleaved:8+4",
    "b4 h4/2 q7 k90 d64 f16 causal=bottom-right ragged lengths pages=5 append",
    "b2 h8/1 q5 k70 d96 v64 bf16 causal=bottom-right lengths latent append rope=halves:16+64",
    "b3 h4/2 q9 k70 d64 f32 align=bottom-right ragged lengths rope=halves:32 positions",
    "b2 h4/2 q1 k3000 d64 f32 causal=bottom-right append rope=halves:32",
};

// The call's results: output, lse, key and value.
Bytes run(Instance& instance, const tessera_device& device) {
  attend(instance, device);
  EXPECT_EQ(instance.misplaced(), "") << words(instance.shape());
  EXPECT_EQ(instance.damage(), "") << words(instance.shape());
  return instance.output_bytes();
}

TEST(Append, ThreadsDoNotMatter) {
  for (const char* text : kCases) {
    Instance instance(case_of(text), Input::normal, 1);
    for (tessera_device device : kernels_here()) {
      device.threads = 1;
      const Bytes alone = run(instance, device);
      for (const int threads : {2, 3}) {
        device.threads = threads;
        EXPECT_EQ(run(instance, device), alone) << text << " on " << device.kernel << ", " << threads;
      }
    }
  }
}

// A workspace of the caller's: exactly what the plan asks for is enough, whatever it holds; nothing around it
// is touched; a byte less is refused before anything is stored; a query that is turned is what it is for.
TEST(Append, Workspace) {
  for (const char* text : kCases) {
    Instance instance(case_of(text), Input::normal, 1);
    const tessera_attention& p = instance.problem();
    for (tessera_device device : kernels_here()) {
      device.threads = 2;
      const Bytes alone = run(instance, device);
      tessera_plan_info plan = TESSERA_PLAN_INFO_INIT;
      device.workspace_bytes = SIZE_MAX;
      ASSERT_EQ(tessera_plan(&p, &device, &plan), TESSERA_OK) << tessera_last_error();
      const auto turned = static_cast<std::int64_t>(tessera_dtype_size(p.query.dtype)) * p.query.shape[0] *
                          p.query.shape[1] * p.query.shape[2] * p.query.shape[3];
      EXPECT_GE(plan.workspace_bytes, p.rope.cos.rank > 0 ? turned : 0) << text;
      const auto bytes = static_cast<std::size_t>(plan.workspace_bytes);
      Bytes memory(bytes + 2048);
      const std::size_t first = 512 - reinterpret_cast<std::uintptr_t>(memory.data()) % 256;
      for (const unsigned char garbage : {0xff, 0x00}) {
        std::fill(memory.begin(), memory.end(), garbage);
        device.workspace = bytes == 0 ? nullptr : memory.data() + first;
        device.workspace_bytes = bytes;
        EXPECT_EQ(run(instance, device), alone) << text << " on " << device.kernel;
        const auto untouched = [&](std::size_t from, std::size_t to) {
          return std::all_of(memory.data() + from, memory.data() + to,
                             [&](unsigned char x) { return x == garbage; });
        };
        EXPECT_TRUE(untouched(0, first) && untouched(first + bytes, memory.size())) << text;
      }
      if (bytes == 0) continue;
      instance.poison_outputs();
      device.workspace_bytes = bytes - 1;
      EXPECT_EQ(tessera_attend(&p, &device), TESSERA_INVALID_ARGUMENT) << text;
      EXPECT_NE(std::string(tessera_last_error()).find(fmt::format("{} are needed", bytes)),
                std::string::npos)
          << tessera_last_error();
      EXPECT_EQ(instance.misplaced().empty(), p.new_key.rank == 0) << "stored by a call that failed";
    }
  }
}

// Storing alone needs no room beside attention's.
TEST(Append, WithoutRopeThePlanIsThatOfTheCallWithout) {
  const Instance with(case_of("b3 h4/2 q5 k90 d64 bf16 causal=bottom-right lengths append"), Input::normal,
                      1),
      without(case_of("b3 h4/2 q5 k90 d64 bf16 causal=bottom-right lengths"), Input::normal, 1);
  tessera_plan_info a = TESSERA_PLAN_INFO_INIT, b = TESSERA_PLAN_INFO_INIT;
  tessera_device cpu = TESSERA_DEVICE_INIT;
  cpu.workspace_bytes = SIZE_MAX;
  ASSERT_EQ(tessera_plan(&with.problem(), &cpu, &a), TESSERA_OK) << tessera_last_error();
  ASSERT_EQ(tessera_plan(&without.problem(), &cpu, &b), TESSERA_OK);
  EXPECT_EQ(a.workspace_bytes, b.workspace_bytes);
  EXPECT_EQ(a.flops, b.flops);
  EXPECT_STREQ(a.kernel, b.kernel);
}

// A program that was built before these fields: what lies behind its struct is not read, and nothing is
// stored.
TEST(Append, AnOlderStructMeansWhatItMeant) {
  const char* const text = "b3 h4/2 q5 k90 d64 f32 causal=bottom-right lengths";
  Instance with(case_of(std::string(text) + " append rope=halves:32"), Input::normal, 1),
      without(case_of(text), Input::normal, 1);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  tessera_attention p = without.problem();
  without.poison_outputs();
  ASSERT_EQ(tessera_attend(&p, &cpu), TESSERA_OK);
  const Bytes expected = without.output_bytes();
  const std::size_t at = offsetof(tessera_attention, new_key);
  p.struct_size = at;
  std::memcpy(reinterpret_cast<char*>(&p) + at, reinterpret_cast<const char*>(&with.problem()) + at,
              sizeof p - at);
  without.poison_outputs();
  ASSERT_EQ(tessera_attend(&p, &cpu), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(without.output_bytes(), expected);
  EXPECT_EQ(without.damage(), "");
  p.struct_size = sizeof p;  // now it is read
  without.poison_outputs();
  ASSERT_EQ(tessera_attend(&p, &cpu), TESSERA_OK) << tessera_last_error();
  EXPECT_NE(without.output_bytes(), expected);
  EXPECT_NE(without.damage(), "");
}

// Entry b of a problem whose rows lie one behind the other, by itself: its rows of every tensor.
tessera_attention entry_of(const tessera_attention& p, const Sequences& sequences, std::int64_t b,
                           std::int64_t* offsets, std::int32_t* length) {
  tessera_attention one = p;
  offsets[0] = 0;
  offsets[1] = sequences.rows_of(b);
  *length = static_cast<std::int32_t>(sequences.key_length(b));
  const auto cut = [&](tessera_tensor* t) {
    const std::int64_t first = sequences.query_at(*t, b, 0, 0);
    t->data = static_cast<char*>(t->data) + first * static_cast<std::int64_t>(tessera_dtype_size(t->dtype));
    t->shape[2] = offsets[1];
  };
  for (tessera_tensor* t : {&one.query, &one.new_key, &one.new_value, &one.output, &one.lse}) cut(t);
  one.query_offsets = {offsets, TESSERA_I64, 1, {2, 0, 0, 0}, {1, 0, 0, 0}};
  one.key_lengths = {length, TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
  one.page_table.data = static_cast<std::int32_t*>(p.page_table.data) + b * p.page_table.strides[0];
  one.page_table.shape[0] = 1;
  return one;
}

// An entry has the bits that it has alone, in the output and in its pages.
TEST(Append, ABatchDoesNotMatter) {
  for (const char* text :
       {"b4 h4/2 q9 k90 d64 f32 causal=bottom-right ragged lengths pages=16 append rope=halves:32",
        "b4 h4/2 q1 k300 d64 bf16 causal=bottom-right ragged lengths pages=16 append rope=interleaved:32"}) {
    const Case c = case_of(text);
    Instance together(c, Input::normal, 2), alone(c, Input::normal, 2);
    for (const tessera_device& device : kernels_here()) {
      const Bytes expected = run(together, device);
      alone.poison_outputs();
      const Sequences sequences(c, alone.problem());
      for (std::int64_t b = c.batch; b-- > 0;) {
        std::int64_t offsets[2];
        std::int32_t length = 0;
        const tessera_attention one = entry_of(alone.problem(), sequences, b, offsets, &length);
        ASSERT_EQ(tessera_attend(&one, &device), TESSERA_OK) << tessera_last_error();
      }
      EXPECT_EQ(alone.misplaced(), "") << text;
      // Rows of no entry are nobody's when each is alone.
      for (std::int64_t b = 0; b < c.batch; ++b)
        for (std::int64_t h = 0; h < c.heads; ++h)
          for (std::int64_t i = 0; i < sequences.rows_of(b); ++i) {
            const auto* offsets = static_cast<const char*>(alone.problem().query_offsets.data);
            const std::int64_t first = alone.problem().query_offsets.dtype == TESSERA_I64
                                           ? reinterpret_cast<const std::int64_t*>(offsets)[b]
                                           : reinterpret_cast<const std::int32_t*>(offsets)[b];
            EXPECT_EQ(row_bits(alone, 0, h, first + i), row_bits(together, 0, h, first + i)) << text;
          }
    }
  }
}

// A sequence that grows, is cut back and grows otherwise, in pages; each step's output is what the whole
// sequence so far, turned at once and attended to without any cache, has for its last rows, within the bound
// that the oracle sets; keys that were there before the step are not touched.
class Chain {
 public:
  static constexpr std::int64_t kDim = 24, kPage = 4, kPages = 16, kMost = kPage * kPages;

  Chain() {
    for (std::int64_t at = 0; at < kMost; ++at)
      for (std::int64_t j = 0; j < kDim / 2; ++j) {
        const double angle = static_cast<double>(at) * std::pow(1e4, -static_cast<double>(j) / (kDim / 2));
        cos_.push_back(static_cast<float>(std::cos(angle)));
        sin_.push_back(static_cast<float>(std::sin(angle)));
      }
    for (std::int32_t n = 0; n < kPages; ++n) table_.push_back((n * 7 + 3) % kPages);
  }

  void step(std::int64_t keep, std::int64_t rows, const tessera_device& device) {
    std::vector<float> query = drawn(rows), output(query.size(), -7.0f);
    tokens_.resize(static_cast<std::size_t>(keep * kDim)), values_.resize(tokens_.size());
    std::vector<float> new_key = drawn(rows), new_value = drawn(rows);
    tokens_.insert(tokens_.end(), new_key.begin(), new_key.end());
    values_.insert(values_.end(), new_value.begin(), new_value.end());
    std::int32_t length = static_cast<std::int32_t>(keep + rows);
    const std::vector<float> before = key_;

    tessera_attention p = TESSERA_ATTENTION_INIT;
    p.query = tessera_tensor_4d(query.data(), TESSERA_F32, 1, 1, rows, kDim);
    p.key = tessera_tensor_4d(key_.data(), TESSERA_F32, kPages, 1, kPage, kDim);
    p.value = tessera_tensor_4d(value_.data(), TESSERA_F32, kPages, 1, kPage, kDim);
    p.output = tessera_tensor_4d(output.data(), TESSERA_F32, 1, 1, rows, kDim);
    p.new_key = tessera_tensor_4d(new_key.data(), TESSERA_F32, 1, 1, rows, kDim);
    p.new_value = tessera_tensor_4d(new_value.data(), TESSERA_F32, 1, 1, rows, kDim);
    p.key_lengths = {&length, TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
    p.page_table = {table_.data(), TESSERA_I32, 2, {1, kPages, 0, 0}, {kPages, 1, 0, 0}};
    p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    p.mask.right = 0;
    p.rope.cos = {cos_.data(), TESSERA_F32, 2, {kMost, kDim / 2, 0, 0}, {kDim / 2, 1, 0, 0}};
    p.rope.sin = {sin_.data(), TESSERA_F32, 2, {kMost, kDim / 2, 0, 0}, {kDim / 2, 1, 0, 0}};
    ASSERT_EQ(tessera_attend(&p, &device), TESSERA_OK) << tessera_last_error();
    for (std::int64_t j = 0; j < keep; ++j)
      for (std::int64_t d = 0; d < kDim; ++d)
        EXPECT_EQ(key_[slot(j) + static_cast<std::size_t>(d)], before[slot(j) + static_cast<std::size_t>(d)]);
    compare(query, output, rows, length, p);
  }

 private:
  std::vector<float> drawn(std::int64_t rows) {
    std::vector<float> out(static_cast<std::size_t>(rows * kDim));
    for (float& x : out) x = random_.normal(next_++);
    return out;
  }
  std::size_t slot(std::int64_t j) const {
    return static_cast<std::size_t>((table_[static_cast<std::size_t>(j / kPage)] * kPage + j % kPage) * kDim);
  }
  // The same from scratch: all keys turned at once as the rows of a query, no cache, no rope.
  void compare(const std::vector<float>& query, const std::vector<float>& output, std::int64_t rows,
               std::int64_t length, tessera_attention p) {
    p.new_key = p.new_value = p.page_table = p.key_lengths = TESSERA_TENSOR_NONE;
    p.key = p.value = tessera_tensor_4d(tokens_.data(), TESSERA_F32, 1, 1, length, kDim);
    Bytes queries = oracle::turned_query(p);
    p.query = p.key;
    Bytes keys = oracle::turned_query(p);
    p.query = tessera_tensor_4d(queries.data(), TESSERA_F32, 1, 1, rows, kDim);
    p.key.data = keys.data();
    p.value.data = values_.data();
    p.rope = {};
    const Expected expected = expect(p, oracle::every_row(p));
    for (std::size_t n = 0; n < query.size(); ++n)
      EXPECT_NEAR(static_cast<double>(output[n]), expected.truth.output[n], expected.output_bound[n])
          << length << " keys, " << rows << " rows, element " << n;
  }

  Random random_{7, 1};
  std::uint64_t next_ = 0;
  std::vector<float> cos_, sin_;
  std::vector<std::int32_t> table_;
  std::vector<float> key_ = std::vector<float>(kMost * kDim, NAN), value_ = key_;
  std::vector<float> tokens_, values_;  // of the sequence, not turned
};

TEST(Append, AChainOfStepsIsTheWholeFromScratch) {
  for (const tessera_device& device : kernels_here()) {
    Chain chain;
    chain.step(0, 13, device);  // a prompt
    for (std::int64_t n = 13; n < 20; ++n) chain.step(n, 1, device);
    chain.step(20, 9, device);  // a chunk across pages
    chain.step(24, 3, device);  // a draft was refused: five are overwritten or forgotten
    chain.step(27, 1, device);
    chain.step(5, 30, device);  // and almost all of it
    chain.step(35, 1, device);
  }
}

}  // namespace
