// A batch of sequences held apart, and put together in every way that the interface knows: so that one entry
// can be computed alone and in any company. Whatever no row may see is NaN, and table entries that nothing
// needs are -1.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cases/gates.hpp"
#include "oracle/oracle.hpp"

namespace tessera::testing_serving {

// Memory of one tensor [a, b, rows, columns], contiguous and NaN at first.
class Memory {
 public:
  Memory() = default;
  Memory(tessera_dtype dtype, std::int64_t a, std::int64_t b, std::int64_t rows, std::int64_t columns)
      : bytes_(static_cast<std::size_t>(a * b * rows * columns) * tessera_dtype_size(dtype) + 64, 0xff),
        tensor_(tessera_tensor_4d(nullptr, dtype, a, b, rows, columns)) {}

  tessera_tensor tensor() {
    tensor_.data = bytes_.data();
    return tensor_;
  }
  tessera_tensor without_columns() {
    tessera_tensor t = tensor();
    t.rank = 3;
    return t;
  }
  unsigned char* row(std::int64_t a, std::int64_t b, std::int64_t r) {
    const std::int64_t at = a * tensor_.strides[0] + b * tensor_.strides[1] + r * tensor_.strides[2];
    return bytes_.data() + static_cast<std::size_t>(at) * tessera_dtype_size(tensor_.dtype);
  }
  std::size_t row_bytes() const {
    return static_cast<std::size_t>(tensor_.shape[3]) * tessera_dtype_size(tensor_.dtype);
  }

 private:
  std::vector<unsigned char> bytes_;
  tessera_tensor tensor_ = TESSERA_TENSOR_NONE;
};

inline tessera_tensor whole_numbers(std::vector<std::int32_t>& values) {
  return {values.data(), TESSERA_I32, 1, {static_cast<std::int64_t>(values.size()), 0, 0, 0}, {1, 0, 0, 0}};
}

struct Shape {
  std::int64_t heads = 4, kv_heads = 2, dim = 64, value_dim = 64;
  tessera_dtype dtype = TESSERA_F32;
  tessera_mask mask = {TESSERA_ALIGN_NONE, 0, TESSERA_UNBOUNDED, TESSERA_UNBOUNDED, TESSERA_TENSOR_NONE};
  float softcap = 0;
  tessera_dtype cache = 0;  // of keys and values, if not the query's
  bool latent = false;      // values are the first columns of keys

  tessera_dtype cache_dtype() const { return cache != 0 ? cache : dtype; }
  tessera_tensor value_of(Memory& key, Memory& value) const {
    if (!latent) return value.tensor();
    tessera_tensor t = key.tensor();
    t.shape[3] = value_dim;
    return t;
  }
};

// One sequence: query [1, heads, rows, dim], key and value [1, kv_heads, keys, ...].
struct Sequence {
  std::int64_t rows, keys;
  Memory query, key, value;

  Sequence(const Shape& s, std::int64_t row_count, std::int64_t key_count, unsigned seed)
      : rows(row_count),
        keys(key_count),
        query(s.dtype, 1, s.heads, row_count, s.dim),
        key(s.cache_dtype(), 1, s.kv_heads, key_count, s.dim),
        value(s.cache_dtype(), 1, s.kv_heads, key_count, s.value_dim) {
    std::mt19937 random(seed);
    std::normal_distribution<double> draw;
    for (Memory* m : {&query, &key, &value}) {
      const tessera_tensor t = m->tensor();
      for (std::int64_t n = 0; n < t.shape[1] * t.shape[2] * t.shape[3]; ++n)
        oracle::store(t.data, t.dtype, n, draw(random));
    }
  }
  // Keys that some row sees.
  std::int64_t first_seen(const tessera_mask& mask) const {
    if (rows == 0) return keys;
    if (mask.align == TESSERA_ALIGN_NONE || mask.left == TESSERA_UNBOUNDED) return 0;
    return std::max<std::int64_t>(keys - rows - mask.left, 0);  // bottom-right, as all are here
  }
};

// Bits of output and lse, row by row: [entry][head * rows + row].
using Bits = std::vector<std::vector<std::vector<unsigned char>>>;

inline tessera_attention common(const Shape& s) {
  tessera_attention p = TESSERA_ATTENTION_INIT;
  p.mask = s.mask;
  p.softcap = s.softcap;
  return p;
}

inline std::vector<unsigned char> bits_of(Memory& output, Memory& lse, std::int64_t head, std::int64_t row) {
  std::vector<unsigned char> bits(output.row(0, head, row), output.row(0, head, row) + output.row_bytes());
  bits.insert(bits.end(), lse.row(0, head, row), lse.row(0, head, row) + lse.row_bytes());
  return bits;
}

// A dense call of each entry by itself.
inline Bits alone(const Shape& s, std::vector<Sequence>& batch, const tessera_device& device) {
  Bits bits;
  for (Sequence& each : batch) {
    Memory output(s.dtype, 1, s.heads, each.rows, s.value_dim), lse(TESSERA_F32, 1, s.heads, each.rows, 1);
    tessera_attention p = common(s);
    p.query = each.query.tensor();
    p.key = each.key.tensor();
    p.value = s.value_of(each.key, each.value);
    p.output = output.tensor();
    p.lse = lse.without_columns();
    EXPECT_EQ(cases::attend_with_library(p, device), "");
    bits.emplace_back();
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < each.rows; ++i) bits.back().push_back(bits_of(output, lse, h, i));
  }
  return bits;
}

struct Company {
  std::vector<std::size_t> order;  // which sequences, in this order
  std::int64_t page = 0;           // 0: keys one behind the other
  std::int64_t rows_before = 0, rows_after = 0;
  std::int64_t spare_columns = 0;  // of the page table
};

// All of them in one call: ragged rows, keys packed or in pages. Result i is that of order[i].
class Together {
 public:
  Together(const Shape& s, std::vector<Sequence>& batch, const Company& company)
      : shape_(s), problem(common(s)) {
    std::int64_t rows = company.rows_before, keys = 0;
    for (const std::size_t n : company.order) {
      offsets_.push_back(static_cast<std::int32_t>(rows));
      key_offsets_.push_back(static_cast<std::int32_t>(keys));
      lengths_.push_back(static_cast<std::int32_t>(batch[n].keys));
      rows += batch[n].rows;
      keys += batch[n].keys;
    }
    offsets_.push_back(static_cast<std::int32_t>(rows));
    key_offsets_.push_back(static_cast<std::int32_t>(keys));
    all_rows_ = rows + company.rows_after;
    query_ = Memory(s.dtype, 1, s.heads, all_rows_, s.dim);
    output = Memory(s.dtype, 1, s.heads, all_rows_, s.value_dim);
    lse = Memory(TESSERA_F32, 1, s.heads, all_rows_, 1);
    for (std::size_t i = 0; i < company.order.size(); ++i) {
      Sequence& from = batch[company.order[i]];
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t r = 0; r < from.rows; ++r)
          copy(from.query.row(0, h, r), &query_, 0, h, offsets_[i] + r);
    }
    company.page == 0 ? pack(batch, company, keys) : put_into_pages(batch, company);
    problem.query = query_.tensor();
    problem.output = output.tensor();
    problem.lse = lse.without_columns();
    problem.query_offsets = whole_numbers(offsets_);
    problem.key = key_.tensor();
    problem.value = s.value_of(key_, value_);
  }
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  Bits run(const tessera_device& device) {
    EXPECT_EQ(cases::attend_with_library(problem, device), "");
    return bits();
  }
  // Of the results as they are.
  Bits bits() {
    Bits all;
    for (std::size_t i = 0; i + 1 < offsets_.size(); ++i) {
      all.emplace_back();
      for (std::int64_t h = 0; h < shape_.heads; ++h)
        for (std::int64_t r = offsets_[i]; r < offsets_[i + 1]; ++r)
          all.back().push_back(bits_of(output, lse, h, r));
    }
    return all;
  }

 private:
  static void copy(const unsigned char* from, Memory* to, std::int64_t a, std::int64_t b, std::int64_t row) {
    std::copy(from, from + to->row_bytes(), to->row(a, b, row));
  }

  void pack(std::vector<Sequence>& batch, const Company& company, std::int64_t keys) {
    key_ = Memory(shape_.cache_dtype(), 1, shape_.kv_heads, keys, shape_.dim);
    value_ = Memory(shape_.cache_dtype(), 1, shape_.kv_heads, keys, shape_.value_dim);
    for (std::size_t i = 0; i < company.order.size(); ++i) {
      Sequence& from = batch[company.order[i]];
      for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
        for (std::int64_t j = 0; j < from.keys; ++j) {
          copy(from.key.row(0, h, j), &key_, 0, h, key_offsets_[i] + j);
          copy(from.value.row(0, h, j), &value_, 0, h, key_offsets_[i] + j);
        }
      }
    }
    problem.key_offsets = whole_numbers(key_offsets_);
  }

  // Pages are handed out from the last one down, with one unused between any two.
  void put_into_pages(std::vector<Sequence>& batch, const Company& company) {
    const std::int64_t page = company.page;
    std::int64_t columns = 1, pages = 1;
    for (const std::size_t n : company.order) {
      const std::int64_t here = (batch[n].keys + page - 1) / page;
      columns = std::max(columns, here);
      pages += 2 * here;
    }
    columns += company.spare_columns;
    key_ = Memory(shape_.cache_dtype(), pages, shape_.kv_heads, page, shape_.dim);
    value_ = Memory(shape_.cache_dtype(), pages, shape_.kv_heads, page, shape_.value_dim);
    const auto entries = static_cast<std::int64_t>(company.order.size());
    table_.assign(static_cast<std::size_t>(entries * columns), -1);
    std::int64_t next = pages;
    for (std::size_t i = 0; i < company.order.size(); ++i) {
      Sequence& from = batch[company.order[i]];
      for (std::int64_t n = from.first_seen(shape_.mask) / page; n * page < from.keys; ++n) {
        next -= 2;
        table_[i * static_cast<std::size_t>(columns) + static_cast<std::size_t>(n)] =
            static_cast<std::int32_t>(next);
        for (std::int64_t j = n * page; j < std::min(from.keys, (n + 1) * page); ++j) {
          for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
            copy(from.key.row(0, h, j), &key_, next, h, j % page);
            copy(from.value.row(0, h, j), &value_, next, h, j % page);
          }
        }
      }
    }
    problem.page_table = {table_.data(), TESSERA_I32, 2, {entries, columns, 0, 0}, {columns, 1, 0, 0}};
    problem.key_lengths = whole_numbers(lengths_);
  }

  Shape shape_;
  std::vector<std::int32_t> offsets_, key_offsets_, lengths_, table_;
  std::int64_t all_rows_ = 0;
  Memory query_, key_, value_;

 public:
  Memory output, lse;
  tessera_attention problem;
  std::int64_t all_rows() const { return all_rows_; }
  std::vector<std::int32_t>& table() { return table_; }
};

}  // namespace tessera::testing_serving
