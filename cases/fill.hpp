// Strides for the layouts of a case, and tensors filled with random values: fast enough that the largest
// cases (2^28 elements) are made in well under a second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <thread>
#include <vector>

#include "cases/case.hpp"
#include "cases/random.hpp"
#include "oracle/oracle.hpp"

namespace tessera::cases {

// Strides from the innermost dimension out; `gap` elements stay unused after each run.
inline void set_strides(tessera_tensor* t, std::int64_t innermost, std::int64_t gap) {
  std::int64_t step = innermost;
  for (std::int32_t d = t->rank - 1; d >= 0; --d) {
    t->strides[d] = step;
    step = step * std::max<std::int64_t>(t->shape[d], 1) + gap;
    gap += gap == 0 ? 0 : 2;  // odd and different in every dimension
  }
}

inline tessera_tensor make_tensor(tessera_dtype dtype, std::initializer_list<std::int64_t> shape) {
  tessera_tensor t = TESSERA_TENSOR_NONE;
  t.dtype = dtype;
  for (std::int64_t size : shape) t.shape[t.rank++] = size;
  set_strides(&t, 1, 0);
  return t;
}

// [batch, heads, rows, dim] or, for lse, [batch, heads, rows].
inline void apply_layout(tessera_tensor* t, Layout layout) {
  if (layout == Layout::padded) set_strides(t, t->rank == 3 ? 2 : 1, 3);
  if (layout == Layout::aligned && t->rank == 4) {
    t->strides[2] = (t->shape[3] / 16 + 1) * 16;
    t->strides[1] = t->strides[2] * t->shape[2];
    t->strides[0] = t->strides[1] * t->shape[1];
  }
  if (layout == Layout::bshd) {
    const std::int64_t row = t->rank == 4 ? t->shape[3] : 1;
    t->strides[1] = row;
    t->strides[2] = row * t->shape[1];
  }
}

// Runs f(first, last) over parts of 0 ... rows - 1, on several threads where that pays.
template <class F>
void in_parallel(std::int64_t rows, std::int64_t elements_per_row, F f) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::int64_t wanted = rows * elements_per_row / (1 << 18);
  const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, std::min<std::int64_t>(cores, 16));
  std::vector<std::thread> threads;
  for (std::int64_t part = 1; part < parts; ++part) {
    threads.emplace_back([=] { f(rows * part / parts, rows * (part + 1) / parts); });
  }
  f(0, rows / parts);
  for (std::thread& t : threads) t.join();
}

// Where row r (counted through batch, heads, rows) of a rank-4 tensor starts.
inline std::int64_t row_offset(const tessera_tensor& t, std::int64_t r) {
  const std::int64_t row = r % t.shape[2], head = r / t.shape[2] % t.shape[1],
                     batch = r / t.shape[2] / t.shape[1];
  return batch * t.strides[0] + head * t.strides[1] + row * t.strides[2];
}

// Element e (in logical order, so that layouts hold the same values) = factor * normal draw.
template <class Bits>
void fill_scaled(const tessera_tensor& t, const Random& random, const std::vector<Bits>& table) {
  const std::int64_t rows = t.shape[0] * t.shape[1] * t.shape[2], columns = t.shape[3];
  in_parallel(rows, columns, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      Bits* out = static_cast<Bits*>(t.data) + row_offset(t, r);
      const auto start = static_cast<std::uint64_t>(r * columns);
      std::int64_t c = 0;
      for (; c + 4 <= columns && start % 4 == 0; c += 4) {
        const std::uint64_t word = random.word((start + static_cast<std::uint64_t>(c)) >> 2);
        out[c] = table[word & 0xffff];
        out[c + 1] = table[word >> 16 & 0xffff];
        out[c + 2] = table[word >> 32 & 0xffff];
        out[c + 3] = table[word >> 48];
      }
      for (; c < columns; ++c) out[c] = table[random.lane(start + static_cast<std::uint64_t>(c))];
    }
  });
}

// Any formula of (row, column, normal draw).
template <class F>
void fill_with(const tessera_tensor& t, const Random& random, F value) {
  const std::int64_t rows = t.shape[0] * t.shape[1] * t.shape[2], columns = t.shape[3];
  in_parallel(rows, columns, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const std::int64_t at = row_offset(t, r);
      for (std::int64_t c = 0; c < columns; ++c) {
        const double draw = static_cast<double>(random.normal(static_cast<std::uint64_t>(r * columns + c)));
        oracle::store(t.data, t.dtype, at + c * t.strides[3], value(r, c, draw));
      }
    }
  });
}

inline void fill_normal(const tessera_tensor& t, const Random& random, double factor) {
  const std::int64_t elements = t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3];
  if (elements < 65536 || t.strides[3] != 1) {
    fill_with(t, random, [=](std::int64_t, std::int64_t, double draw) { return factor * draw; });
    return;
  }
  // Converted once per table entry instead of once per element: the big cases are 2^28 elements.
  const auto converted = [&](auto* table) {
    table->resize(65536);
    for (std::size_t n = 0; n < table->size(); ++n) {
      oracle::store(table->data(), t.dtype, static_cast<std::int64_t>(n),
                    factor * static_cast<double>(normal_table()[n]));
    }
    fill_scaled(t, random, *table);
  };
  if (t.dtype == TESSERA_F32) {
    std::vector<float> table;
    converted(&table);
  } else if (tessera_dtype_size(t.dtype) == 1) {
    std::vector<std::uint8_t> table;
    converted(&table);
  } else {
    std::vector<std::uint16_t> table;
    converted(&table);
  }
}

}  // namespace tessera::cases
