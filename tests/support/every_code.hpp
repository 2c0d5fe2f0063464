// All 256 codes of a dtype of 8 bits, as value and as key, whatever the kernel and the query: what comes out
// is what the code stands for.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "cases/gates.hpp"
#include "oracle/oracle.hpp"

namespace tessera::testing_codes {

inline constexpr tessera_dtype kCodes[] = {TESSERA_F8E4M3, TESSERA_F8E5M2, TESSERA_I8};
inline constexpr tessera_dtype kWideQueries[] = {TESSERA_F32, TESSERA_F16, TESSERA_BF16};

struct Kind {
  tessera_dtype query, codes;
};

// Those that a query may have beside such codes: their own, and the wide ones.
inline std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  for (const tessera_dtype codes : kCodes) {
    if (codes != TESSERA_I8) kinds.push_back({codes, codes});
    for (const tessera_dtype query : kWideQueries) kinds.push_back({query, codes});
  }
  return kinds;
}

inline void fill(std::vector<std::uint32_t>* memory, tessera_dtype dtype, double value) {
  for (std::size_t n = 0; n < memory->size(); ++n)
    oracle::store(memory->data(), dtype, static_cast<std::int64_t>(n), value);
}

// Every row sees one key alone, so that the output is the value row as it was read.
inline tessera_attention one_key_each(const Kind& kind, std::int64_t rows, std::int64_t dim,
                                      std::int64_t value_dim) {
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.scale = 1;
  p.query = tessera_tensor_4d(nullptr, kind.query, 1, 1, rows, dim);
  p.key = tessera_tensor_4d(nullptr, kind.codes, 1, 1, rows, dim);
  p.value = tessera_tensor_4d(nullptr, kind.codes, 1, 1, rows, value_dim);
  p.output = tessera_tensor_4d(nullptr, TESSERA_F32, 1, 1, rows, value_dim);
  p.mask.align = TESSERA_ALIGN_TOP_LEFT;
  p.mask.left = p.mask.right = 0;
  return p;
}

inline void expect_every_value(const Kind& kind, std::int64_t rows, bool transposed,
                               const tessera_device& device) {
  constexpr std::int64_t kColumns = 256;
  std::vector<std::uint32_t> q(static_cast<std::size_t>(rows) * 16), k(q);
  fill(&q, kind.query, 0);
  fill(&k, kind.codes, 0);
  std::vector<std::uint8_t> v;
  for (std::int64_t n = 0; n < rows * kColumns; ++n)
    v.push_back(static_cast<std::uint8_t>(transposed ? n / rows : n % kColumns));
  std::vector<float> o(static_cast<std::size_t>(rows * kColumns));
  tessera_attention p = one_key_each(kind, rows, 16, kColumns);
  p.query.data = q.data(), p.key.data = k.data(), p.value.data = v.data(), p.output.data = o.data();
  if (transposed) p.value.strides[2] = 1, p.value.strides[3] = rows;
  ASSERT_EQ(cases::attend_with_library(p, device), "") << device.kernel;
  for (std::size_t n = 0; n < o.size(); ++n) {
    const auto code = static_cast<std::uint8_t>(n % kColumns);
    const double want = oracle::load(&code, kind.codes, 0);
    const bool same = std::isnan(want) ? std::isnan(o[n]) : static_cast<double>(o[n]) == want;
    ASSERT_TRUE(same) << tessera_dtype_name(kind.codes) << " " << int{code} << " gives " << o[n] << " on "
                      << device.kernel << " beside " << tessera_dtype_name(kind.query);
  }
}

// The score, and so the lse, is the product with 1; `off` is how far the lse may be, relative to it.
inline void expect_every_key(const Kind& kind, double off, const tessera_device& device) {
  constexpr std::int64_t kRows = 256;
  std::vector<std::uint32_t> ones(kRows);
  fill(&ones, kind.query, 1);
  std::vector<std::uint8_t> codes(kRows);
  for (std::size_t n = 0; n < kRows; ++n) codes[n] = static_cast<std::uint8_t>(n);
  std::vector<std::uint8_t> v(kRows, 0);
  std::vector<float> o(kRows), lse(kRows);
  tessera_attention p = one_key_each(kind, kRows, 1, 1);
  p.query.data = ones.data(), p.key.data = codes.data(), p.value.data = v.data(), p.output.data = o.data();
  p.lse = {lse.data(), TESSERA_F32, 3, {1, 1, kRows, 0}, {kRows, kRows, 1, 0}};
  ASSERT_EQ(cases::attend_with_library(p, device), "") << device.kernel;
  for (std::size_t n = 0; n < kRows; ++n) {
    const double want = oracle::load(codes.data(), kind.codes, static_cast<std::int64_t>(n));
    const bool none = std::isnan(want) || want == INFINITY;
    const double got = static_cast<double>(lse[n]);
    const bool same = none ? std::isnan(got) : got == want || std::fabs(got - want) <= off * std::fabs(want);
    ASSERT_TRUE(same) << tessera_dtype_name(kind.codes) << " " << n << " gives " << got << " on "
                      << device.kernel << " beside " << tessera_dtype_name(kind.query);
  }
}

}  // namespace tessera::testing_codes
