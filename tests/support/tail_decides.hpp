// Keys in two tensors that are alike but for their tails, on any device: one key of each head has a tail that
// outweighs all others, and the output is its value, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cases/gates.hpp"
#include "cases/sequences.hpp"
#include "oracle/oracle.hpp"

namespace tessera::testing_tail {

// Layouts, dtypes and sizes of the tails that are asked.
inline const char* const kWhere[] = {
    "b2 h4/2 q3 k70 d71 v5 bf16 tail=7 cache=f8e4m3",
    "b3 h4/2 q40 k70 d80 v64 f16 tail=16 cache=i8 lengths",
    "b2 h4/2 q5 k130 d192 v128 f32 tail=64 cache=f8e5m2 ragged packed",
    "b2 h16/1 q1 k100 d576 v512 bf16 tail=64 cache=f8e4m3 ragged lengths pages=16",
    "b3 h4/2 q3 k70 d71 v5 f16 tail=7 ragged lengths pages=5 layout=padded",
    "b2 h4/2 q40 k70 d80 v64 bf16 tail=16",
    "b2 h4/2 q7 k70 d80 v64 f32 tail=16 packed layout=bshd",
    "b3 h4/2 q3 k1 d80 v64 f32 tail=16 cache=i8 lengths",
    "b1 h2 q3 k300 d8 v8 f32 tail=3",
};

inline void set_elements(const tessera_tensor& t, std::int64_t at, double value) {
  for (std::int64_t d = 0; d < t.shape[3]; ++d) oracle::store(t.data, t.dtype, at + d * t.strides[3], value);
}

inline void expect_tail_decides(const char* words, const tessera_device& device) {
  std::string error;
  const auto c = cases::parse(words, &error);
  ASSERT_TRUE(c.has_value()) << error;
  cases::Instance x(*c, cases::Input::normal, 5);
  tessera_attention& p = x.problem();
  const cases::Sequences sequences(*c, p);
  p.scale = 1;
  const auto which = [&](std::int64_t b, std::int64_t h) {
    return (7 * b + 3 * h + 11) % sequences.key_length(b);
  };
  for (std::int64_t b = 0; b < c->batch; ++b) {
    for (std::int64_t h = 0; h < c->heads; ++h)
      for (std::int64_t i = 0; i < sequences.rows_of(b); ++i)
        set_elements(p.query, sequences.query_at(p.query, b, h, i), 1);
    for (std::int64_t h = 0; h < c->kv_heads; ++h)
      for (std::int64_t j = 0; j < sequences.key_length(b); ++j) {
        if (sequences.key_at(p.key, b, h, j) < 0) continue;
        const std::int64_t tail = sequences.key_at(p.key_tail, b, h, j);
        set_elements(p.key, sequences.key_at(p.key, b, h, j), 1);
        set_elements(p.value, sequences.key_at(p.value, b, h, j), static_cast<double>(j % 13 + 1));
        set_elements(p.key_tail, tail, 0);
        if (j == which(b, h))  // another column for each head, the last among them
          oracle::store(p.key_tail.data, p.key_tail.dtype, tail + c->tail - 1 - (b + h) % c->tail, 200);
      }
  }
  x.accept_inputs();
  x.poison_outputs();
  ASSERT_EQ(cases::attend_with_library(p, device), "") << words;
  int rows = 0;
  for (std::int64_t b = 0; b < c->batch; ++b)
    for (std::int64_t h = 0; h < c->heads; ++h)
      for (std::int64_t i = 0; i < sequences.rows_of(b) && sequences.key_length(b) > 0; ++i, ++rows) {
        const double want = static_cast<double>(which(b, h / (c->heads / c->kv_heads)) % 13 + 1);
        for (std::int64_t d = 0; d < c->value_dim; ++d)
          ASSERT_EQ(oracle::load(p.output.data, p.output.dtype, sequences.query_at(p.output, b, h, i) + d),
                    want)
              << words << " : entry " << b << ", head " << h << ", row " << i;
      }
  EXPECT_GT(rows, 0) << words;
}

}  // namespace tessera::testing_tail
