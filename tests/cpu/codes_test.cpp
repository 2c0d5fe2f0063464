// 8-bit inputs and caches on every CPU kernel that runs here: all codes of every dtype, and where scales are
// looked up, with numbers that can be worked out by hand.
#include <cmath>
#include <cstdint>

#include "support.hpp"
#include "tessera/tessera.hpp"
#include "tests/support/every_code.hpp"

namespace {

using namespace tessera::testing_cpu;
using namespace tessera::testing_codes;

constexpr std::uint8_t kOne = 0x38, kTwo = 0x40;  // e4m3

// Whatever the kernel: few rows, panels of rows, one key.
TEST(Codes, EachStandsForItsNumber) {
  for (const tessera_device& device : kernels_here())
    for (const Kind& kind : all_kinds())
      for (const std::int64_t rows : {1, 3, 40})
        for (const bool transposed : {false, true}) expect_every_value(kind, rows, transposed, device);
}

TEST(Codes, EachStandsForItsNumberInAScore) {
  for (const tessera_device& device : kernels_here())
    for (const Kind& kind : all_kinds()) expect_every_key(kind, 0, device);
}

// As query.
TEST(Codes, EachStandsForItsNumberInAQuery) {
  for (const tessera_device& device : kernels_here()) {
    for (const tessera_dtype dtype : {TESSERA_F8E4M3, TESSERA_F8E5M2}) {
      const std::uint8_t one = dtype == TESSERA_F8E4M3 ? 0x38 : 0x3c;
      std::vector<std::uint8_t> codes(256), ones(256, one);
      for (std::size_t n = 0; n < 256; ++n) codes[n] = static_cast<std::uint8_t>(n);
      std::vector<float> o(256), lse(256);
      tessera_attention p = one_key_each({dtype, dtype}, 256, 1, 1);
      p.query.data = codes.data(), p.key.data = p.value.data = ones.data(), p.output.data = o.data();
      p.lse = {lse.data(), TESSERA_F32, 3, {1, 1, 256, 0}, {256, 256, 1, 0}};
      ASSERT_EQ(tessera_attend(&p, &device), TESSERA_OK) << tessera_last_error();
      for (std::size_t n = 0; n < 256; ++n) {
        const double want = tessera::oracle::load(codes.data(), dtype, static_cast<std::int64_t>(n));
        const bool none = std::isnan(want) || want == INFINITY;
        const bool same = none ? std::isnan(lse[n]) : static_cast<double>(lse[n]) == want;
        ASSERT_TRUE(same) << n << " gives " << lse[n] << " on " << device.kernel;
      }
    }
  }
}

// Rows that see one key each, as in tests/unit/oracle_codes_test.cpp, by the C++ interface.
struct Paper {
  static constexpr std::int64_t kBatch = 2, kHeads = 2, kRows = 150;
  static constexpr std::size_t kElements = kBatch * kHeads * kRows;
  std::vector<tessera::f8e4m3> q = std::vector(kElements, tessera::f8e4m3{kOne});
  std::vector<tessera::f8e4m3> k = std::vector(kElements, tessera::f8e4m3{kTwo});
  std::vector<tessera::f8e4m3> v = std::vector(2 * kElements, tessera::f8e4m3{kOne});
  std::vector<float> query_scales, key_scales, value_scales;
  std::vector<float> o = std::vector<float>(2 * kElements), lse = std::vector<float>(kElements);
  tessera::Attention p{
      .query = tessera::tensor(q.data(), {kBatch, kHeads, kRows, 1}),
      .key = tessera::tensor(k.data(), {kBatch, kHeads, kRows, 1}),
      .value = tessera::tensor(v.data(), {kBatch, kHeads, kRows, 2}),
      .output = tessera::tensor(o.data(), {kBatch, kHeads, kRows, 2}),
      .lse = tessera::tensor(lse.data(), {kBatch, kHeads, kRows}),
      .scale = 1.0f,
      .mask = tessera::window(0, 0, tessera::Align::top_left),
  };

  // want_score(b, h, row) and want_value(b, h, row, channel) are the scales' products.
  template <class Score, class Value>
  void expect(Score want_score, Value want_value) {
    for (const tessera_device& device : kernels_here()) {
      const tessera::Status status = tessera::attend(p, device);
      ASSERT_TRUE(status) << status.message();
      for (std::int64_t n = 0; n < kBatch * kHeads * kRows; ++n) {
        const std::int64_t b = n / kRows / kHeads, h = n / kRows % kHeads, row = n % kRows;
        ASSERT_EQ(lse[static_cast<std::size_t>(n)], 2.0f * want_score(b, h, row))
            << device.kernel << " " << n;
        for (std::int64_t d = 0; d < 2; ++d)
          ASSERT_EQ(o[static_cast<std::size_t>(2 * n + d)], want_value(b, h, row, d))
              << device.kernel << " " << n;
      }
    }
  }
};

float number(std::int64_t n) { return static_cast<float>(n); }

TEST(Scales, OfATensor) {
  Paper x;
  x.query_scales = {3}, x.key_scales = {5}, x.value_scales = {7};
  x.p.query_scales = tessera::tensor(x.query_scales.data(), {1, 1, 1, 1});
  x.p.key_scales = tessera::tensor(x.key_scales.data(), {1, 1, 1, 1});
  x.p.value_scales = tessera::tensor(x.value_scales.data(), {1, 1, 1, 1});
  x.expect([](auto...) { return 15.0f; }, [](auto...) { return 7.0f; });
}

TEST(Scales, OfHeadsAndEntries) {
  Paper x;
  x.query_scales = {1, 2, 3, 4}, x.key_scales = {10, 20}, x.value_scales = {5, 6};
  x.p.query_scales = tessera::tensor(x.query_scales.data(), {2, 2, 1, 1});
  x.p.key_scales = tessera::tensor(x.key_scales.data(), {1, 2, 1, 1});
  x.p.value_scales = tessera::tensor(x.value_scales.data(), {2, 1, 1, 1});
  x.expect([](auto b, auto h, auto) { return number((1 + 2 * b + h) * (10 + 10 * h)); },
           [](auto b, auto, auto, auto) { return number(5 + b); });
}

TEST(Scales, OfBlocks) {
  Paper x;
  x.p.scale_rows = 64;
  for (int n = 1; n <= 3; ++n) x.query_scales.push_back(number(n));
  for (int n = 1; n <= 12; ++n) x.key_scales.push_back(number(n)), x.value_scales.push_back(number(100 * n));
  x.p.query_scales = tessera::tensor(x.query_scales.data(), {1, 1, 3, 1});
  x.p.key_scales = tessera::tensor(x.key_scales.data(), {2, 2, 3, 1});
  // The heads of value in the other order.
  x.p.value_scales = tessera::tensor(x.value_scales.data(), {2, 2, 3, 1}, {3, 6, 1, 1});
  x.expect([](auto b, auto h, auto row) { return number((1 + row / 64) * (1 + 6 * b + 3 * h + row / 64)); },
           [](auto b, auto h, auto row, auto) { return number(100 * (1 + 3 * b + 6 * h + row / 64)); });
}

TEST(Scales, OfChannels) {
  Paper x;
  x.value_scales = {1, 2, 3, 4, 5, 6, 7, 8};
  x.p.value_scales = tessera::tensor(x.value_scales.data(), {2, 2, 1, 2});
  x.expect([](auto...) { return 1.0f; },
           [](auto b, auto h, auto, auto d) { return number(1 + 4 * b + 2 * h + d); });
}

// Blocks of packed rows are counted from the tensor's first row, pages by their own number.
TEST(Scales, OfPackedRowsAndPages) {
  std::vector<tessera::f8e4m3> q(140, {kOne}), k(140, {kTwo}), v(140, {kOne});
  std::vector<float> o(140), lse(140), scales = {1, 3, 5};
  std::vector<std::int32_t> offsets = {0, 60, 140}, table = {1, 0, -1, 2, 1, 0}, lengths = {50, 70};
  tessera::Attention p{
      .query = tessera::tensor(q.data(), {1, 1, 140, 1}),
      .key = tessera::tensor(k.data(), {1, 1, 140, 1}),
      .value = tessera::tensor(v.data(), {1, 1, 140, 1}),
      .output = tessera::tensor(o.data(), {1, 1, 140, 1}),
      .lse = tessera::tensor(lse.data(), {1, 1, 140}),
      .scale = 1.0f,
      .mask = tessera::window(0, 0, tessera::Align::top_left),
      .query_offsets = tessera::tensor(offsets.data(), {3}),
      .key_offsets = tessera::tensor(offsets.data(), {3}),
      .query_scales = tessera::tensor(scales.data(), {1, 1, 3, 1}),
      .value_scales = tessera::tensor(scales.data(), {1, 1, 3, 1}),
      .scale_rows = 64,
  };
  for (const tessera_device& device : kernels_here()) {
    tessera::Status status = tessera::attend(p, device);
    ASSERT_TRUE(status) << status.message();
    for (std::size_t n = 0; n < 140; ++n) {
      ASSERT_EQ(o[n], scales[n / 64]) << n;
      ASSERT_EQ(lse[n], 2 * scales[n / 64]) << n;
    }
    // Three pages of 28 rows: entry 0 has its 50 keys in pages 1 and 0, entry 1 its 70 in 2, 1 and 0.
    tessera::Attention paged = p;
    paged.key_offsets = TESSERA_TENSOR_NONE;
    paged.key = tessera::tensor(k.data(), {3, 1, 28, 1});
    paged.value = tessera::tensor(v.data(), {3, 1, 28, 1});
    paged.page_table = tessera::tensor(table.data(), {2, 3});
    paged.key_lengths = tessera::tensor(lengths.data(), {2});
    paged.query_scales = TESSERA_TENSOR_NONE;
    paged.value_scales = tessera::tensor(scales.data(), {3, 1, 1, 1});
    status = tessera::attend(paged, device);
    ASSERT_TRUE(status) << status.message();
    for (std::size_t n = 0; n < 140; ++n) {
      const std::size_t entry = n < 60 ? 0 : 1, key = n - (entry == 0 ? 0 : 60);
      const bool there = key < static_cast<std::size_t>(lengths[entry]);
      const float want = there ? scales[static_cast<std::size_t>(table[entry * 3 + key / 28])] : 0.0f;
      ASSERT_EQ(o[n], want) << n << " on " << device.kernel;
    }
  }
}

}  // namespace
