// Keys in two tensors on the CPU beyond what the list of cases asks: tails that alone decide, structs of an
// older header, threads, a cache that is written step by step, pools that 32 bits cannot count.
#include <sys/mman.h>

#include <cstddef>
#include <cstring>

#include "oracle/append.hpp"
#include "support.hpp"
#include "tests/support/tail_decides.hpp"

namespace {

using namespace tessera;
using namespace tessera::cases;
using namespace tessera::testing_cpu;
using Bytes = std::vector<unsigned char>;

TEST(Tail, AloneDecides) {
  for (const tessera_device& device : kernels_here())
    for (const char* where : testing_tail::kWhere) testing_tail::expect_tail_decides(where, device);
}

// A program that was built before this field: what lies behind its struct is not read.
TEST(Tail, AnOlderStructMeansWhatItMeant) {
  Instance x(case_of("b2 h4/2 q5 k40 d24 v16 f32"), Input::normal, 1);
  const Instance other(case_of("b2 h4/2 q5 k40 d24 v16 f32 tail=8"), Input::normal, 1);
  const tessera_device cpu = TESSERA_DEVICE_INIT;
  tessera_attention p = x.problem();
  x.poison_outputs();
  ASSERT_EQ(tessera_attend(&p, &cpu), TESSERA_OK);
  const Bytes expected = x.output_bytes();
  p.key_tail = other.problem().key_tail;
  x.poison_outputs();
  p.struct_size = offsetof(tessera_attention, key_tail);
  ASSERT_EQ(tessera_attend(&p, &cpu), TESSERA_OK) << tessera_last_error();
  EXPECT_EQ(x.output_bytes(), expected);
  p.struct_size = sizeof p;  // now it is read
  EXPECT_EQ(tessera_attend(&p, &cpu), TESSERA_INVALID_ARGUMENT);
}

// Of new rows as well: the tail is written in the same call.
TEST(Tail, ThreadsDoNotMatter) {
  for (const char* text :
       {"b3 h4/2 q40 k200 d80 v64 bf16 causal=bottom-right ragged lengths pages=16 tail=16 cache=f8e4m3 "
        "scales=block64 append rope=halves:16+48",
        "b2 h8/1 q5 k3000 d96 v64 f16 causal=bottom-right tail=32 latent append rope=halves:16+64"}) {
    Instance x(case_of(text), Input::normal, 1);
    for (tessera_device device : kernels_here()) {
      Bytes alone;
      for (const int threads : {1, 2, 3}) {
        device.threads = threads;
        attend(x, device);
        EXPECT_EQ(x.misplaced(), "") << text;
        EXPECT_EQ(x.damage(), "") << text;
        if (threads == 1) alone = x.output_bytes();
        EXPECT_EQ(x.output_bytes(), alone) << text << " on " << device.kernel << ", " << threads;
      }
    }
  }
}

// A latent cache of 8 bits that grows, is cut back and grows otherwise, in pages: 24 dimensions of codes,
// which are the values too, and a tail of 8 that is turned. After each step the cache is what the oracle
// stores, bit for bit, and the output what the oracle has over it.
class Chain {
 public:
  static constexpr std::int64_t kDim = 32, kTail = 8, kKey = kDim - kTail, kPage = 4, kPages = 16,
                                kMost = kPage * kPages, kHeads = 4;

  Chain() {
    for (std::int64_t n = 0; n < kMost * kTail / 2; ++n) {
      cos_.push_back(std::cos(0.1f * static_cast<float>(n % 37)));
      sin_.push_back(std::sin(0.1f * static_cast<float>(n % 37)));
    }
    for (std::int32_t n = 0; n < kPages; ++n) table_.push_back((n * 7 + 3) % kPages);
  }

  void step(std::int64_t keep, std::int64_t rows, const tessera_device& device) {
    Bytes query = drawn(kHeads * rows), new_key = drawn(rows);
    std::vector<float> output(static_cast<std::size_t>(kHeads * rows * kKey), -7.0f);
    std::int32_t length = static_cast<std::int32_t>(keep + rows);
    tessera_attention p = TESSERA_ATTENTION_INIT;
    p.query = tessera_tensor_4d(query.data(), TESSERA_BF16, 1, kHeads, rows, kDim);
    p.key = tessera_tensor_4d(key_.data(), TESSERA_F8E4M3, kPages, 1, kPage, kKey);
    p.key_tail = tessera_tensor_4d(tail_.data(), TESSERA_BF16, kPages, 1, kPage, kTail);
    p.value = p.key;
    p.output = tessera_tensor_4d(output.data(), TESSERA_F32, 1, kHeads, rows, kKey);
    p.new_key = tessera_tensor_4d(new_key.data(), TESSERA_BF16, 1, 1, rows, kDim);
    p.key_scales = tessera_tensor_4d(&scale_, TESSERA_F32, 1, 1, 1, 1);
    p.value_scales = p.key_scales;
    p.key_lengths = {&length, TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
    p.page_table = {table_.data(), TESSERA_I32, 2, {1, kPages, 0, 0}, {kPages, 1, 0, 0}};
    p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
    p.mask.right = 0;
    p.rope.cos = {cos_.data(), TESSERA_F32, 2, {kMost, kTail / 2, 0, 0}, {kTail / 2, 1, 0, 0}};
    p.rope.sin = {sin_.data(), TESSERA_F32, 2, {kMost, kTail / 2, 0, 0}, {kTail / 2, 1, 0, 0}};
    p.rope.first = kKey;
    Bytes key = key_, tail = tail_;
    oracle::store_new_rows(p, key.data(), nullptr, tail.data());
    const oracle::Rest rest(p);
    ASSERT_EQ(tessera_attend(&p, &device), TESSERA_OK) << tessera_last_error();
    EXPECT_EQ(key_, key) << length;
    EXPECT_EQ(tail_, tail) << length;
    const Expected expected = expect(rest.problem(), oracle::every_row(p));
    for (std::size_t n = 0; n < output.size(); ++n)
      ASSERT_NEAR(static_cast<double>(output[n]), expected.truth.output[n], expected.output_bound[n])
          << length << " keys, " << rows << " rows, element " << n;
  }

 private:
  Bytes drawn(std::int64_t rows) {
    Bytes out(static_cast<std::size_t>(rows * kDim * 2));
    for (std::int64_t n = 0; n < rows * kDim; ++n)
      oracle::store(out.data(), TESSERA_BF16, n, static_cast<double>(random_.normal(next_++)));
    return out;
  }

  Random random_{7, 1};
  std::uint64_t next_ = 0;
  float scale_ = 0x1p-6f;
  std::vector<float> cos_, sin_;
  std::vector<std::int32_t> table_;
  Bytes key_ = Bytes(kMost * kKey, 0x7f), tail_ = Bytes(kMost * kTail * 2, 0xff);  // NaN
};

TEST(Tail, AChainOfStepsIsWhatTheOracleStores) {
  for (const tessera_device& device : kernels_here()) {
    Chain chain;
    chain.step(0, 13, device);  // a prompt
    for (std::int64_t n = 13; n < 20; ++n) chain.step(n, 1, device);
    chain.step(20, 9, device);  // a chunk across pages
    chain.step(24, 3, device);  // a draft was refused: five are overwritten or forgotten
    chain.step(5, 30, device);  // and almost all of it
    chain.step(35, 1, device);
  }
}

// Pages so far apart that neither 32 bits of elements nor of bytes reach the last one.
TEST(TailPool, BeyondTwoToThe31Elements) {
  constexpr std::int64_t kApart = (std::int64_t{1} << 30) + 64;
  constexpr std::size_t kBytes = 3 * static_cast<std::size_t>(kApart) * sizeof(float);
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "skipped: 12 GB of addresses, because there are none";
  float* const tail = static_cast<float*>(memory);
  std::vector<float> q = {1, 1, 1}, new_k = {1, 2, 3}, o(1), new_v = {5};
  auto* const codes = reinterpret_cast<signed char*>(tail + 16);  // of the same pool
  std::vector<std::int32_t> table = {0, 2}, length = {2};
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.query = tessera_tensor_4d(q.data(), TESSERA_F32, 1, 1, 1, 3);
  p.key = tessera_tensor_4d(codes, TESSERA_I8, 3, 1, 1, 1);
  p.value = tessera_tensor_4d(codes + 16, TESSERA_I8, 3, 1, 1, 1);
  p.key_tail = tessera_tensor_4d(tail, TESSERA_F32, 3, 1, 1, 2);
  p.key.strides[0] = p.value.strides[0] = 4 * kApart;
  p.key_tail.strides[0] = kApart;
  p.output = tessera_tensor_4d(o.data(), TESSERA_F32, 1, 1, 1, 1);
  p.new_key = tessera_tensor_4d(new_k.data(), TESSERA_F32, 1, 1, 1, 3);
  p.new_value = tessera_tensor_4d(new_v.data(), TESSERA_F32, 1, 1, 1, 1);
  p.key_lengths = {length.data(), TESSERA_I32, 1, {1, 0, 0, 0}, {1, 0, 0, 0}};
  p.page_table = {table.data(), TESSERA_I32, 2, {1, 2, 0, 0}, {2, 1, 0, 0}};
  p.mask.align = TESSERA_ALIGN_BOTTOM_RIGHT;
  p.scale = 100;
  for (const tessera_device& device : kernels_here()) {
    tail[2 * kApart] = tail[2 * kApart + 1] = 0;
    o[0] = 0;
    ASSERT_EQ(tessera_attend(&p, &device), TESSERA_OK) << tessera_last_error();
    EXPECT_EQ(o[0], 5) << device.kernel;
    EXPECT_EQ(tail[2 * kApart], 2);
    EXPECT_EQ(tail[2 * kApart + 1], 3);
    EXPECT_EQ(codes[8 * kApart], 1);
  }
  munmap(memory, kBytes);
}

}  // namespace
