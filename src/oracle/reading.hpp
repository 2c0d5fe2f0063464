// How the judges read a problem: sizes, broadcasting and visibility, each straight from the words of
// tessera.h. Used by float64.cpp and plain.cpp and by nothing else.
#pragma once

#include <tessera/tessera.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "oracle/oracle.hpp"

namespace tessera::oracle {

struct Sizes {
  explicit Sizes(const tessera_attention& p)
      : batch(p.query_offsets.data != nullptr ? p.query_offsets.shape[0] - 1 : p.query.shape[0]),
        heads(p.query.shape[1]),
        kv_heads(p.key.shape[1]),
        queries(p.query.shape[2]),
        dim(p.query.shape[3]),
        value_dim(p.value.shape[3]),
        parts(p.prior_lse.data != nullptr ? p.prior_lse.shape[0] : 0) {}
  std::int64_t batch, heads, kv_heads;
  std::int64_t queries;  // of each entry, or, with query_offsets, of all together
  std::int64_t dim, value_dim;
  std::int64_t parts;  // of prior results
};

// Element n of a vector of i32 or i64.
inline std::int64_t whole(const tessera_tensor& t, std::int64_t n) {
  const std::int64_t at = n * t.strides[0];
  if (t.dtype == TESSERA_I32) return static_cast<const std::int32_t*>(t.data)[at];
  return static_cast<const std::int64_t*>(t.data)[at];
}

// Rows of entry b, and where the first of them lies in a tensor [1, heads, rows, ...].
inline std::int64_t rows_of(const tessera_attention& p, std::int64_t b) {
  if (p.query_offsets.data == nullptr) return p.query.shape[2];
  return whole(p.query_offsets, b + 1) - whole(p.query_offsets, b);
}
inline std::int64_t first_row(const tessera_attention& p, std::int64_t b) {
  return p.query_offsets.data == nullptr || b == kNoEntry ? 0 : whole(p.query_offsets, b);
}

// What dot products are multiplied by, in the precision of the caller.
template <class Number>
Number scale_of(const tessera_attention& p) {
  if (p.scale == TESSERA_SCALE_ZERO) return 0;
  if (p.scale == 0) return Number{1} / std::sqrt(static_cast<Number>(p.query.shape[3]));
  return static_cast<Number>(p.scale);
}

// Where [b, h, row, 0] of a rank-4 tensor lies.
inline std::int64_t row_start(const tessera_tensor& t, std::int64_t b, std::int64_t h, std::int64_t row) {
  return b * t.strides[0] + h * t.strides[1] + row * t.strides[2];
}

// Where [b, h, i, j] of a tensor lies that broadcasts to [batch, heads, queries, keys]: dimensions are
// matched from the right, a missing one or one of size 1 is repeated.
inline std::int64_t broadcast_index(const tessera_tensor& t, std::int64_t b, std::int64_t h, std::int64_t i,
                                    std::int64_t j) {
  const std::int64_t index[4] = {b, h, i, j};
  std::int64_t at = 0;
  for (std::int32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] != 1) at += index[4 - t.rank + d] * t.strides[d];
  }
  return at;
}

inline std::int64_t key_length(const tessera_attention& p, std::int64_t b) {
  if (p.key_offsets.data != nullptr) return whole(p.key_offsets, b + 1) - whole(p.key_offsets, b);
  if (p.key_lengths.data != nullptr) return whole(p.key_lengths, b);
  return p.key.shape[2];
}

// A row of a tensor, in the coordinates in which it is stored: [outer, head, row, :].
struct Stored {
  std::int64_t outer, head, row;
  bool exists = true;
};

// Key j of entry b in key or value; its page may not exist.
inline Stored stored_key(const tessera_attention& p, const tessera_tensor& t, std::int64_t b, std::int64_t h,
                         std::int64_t j) {
  if (p.key_offsets.data != nullptr) return {0, h, whole(p.key_offsets, b) + j};
  if (p.page_table.rank == 0) return {b, h, j};
  const tessera_tensor& table = p.page_table;
  const std::int64_t page = t.shape[2];
  const std::int32_t which =
      static_cast<const std::int32_t*>(table.data)[b * table.strides[0] + j / page * table.strides[1]];
  return {which, h, j % page, which >= 0 && which < t.shape[0]};
}

// The query row, likewise.
inline Stored stored_query(const tessera_attention& p, const Row& row) {
  return {p.query_offsets.data != nullptr ? 0 : row.batch, row.head, first_row(p, row.batch) + row.query};
}

// Where the scale of column d of a stored row lies, and what it is; 1 without scales.
inline std::int64_t scale_index(const tessera_attention& p, const tessera_tensor& scales, const Stored& at,
                                std::int64_t d) {
  const std::int64_t block = scales.shape[2] == 1 ? 0 : at.row / p.scale_rows;
  return broadcast_index(scales, at.outer, at.head, block, d);
}
inline float scale_at(const tessera_attention& p, const tessera_tensor& scales, const Stored& at,
                      std::int64_t d) {
  if (scales.data == nullptr) return 1.0f;
  return static_cast<const float*>(scales.data)[scale_index(p, scales, at, d)];
}

// Where query i of batch entry b stands on the key axis.
inline std::int64_t position(const tessera_attention& p, std::int64_t b, std::int64_t i) {
  if (p.mask.align == TESSERA_ALIGN_BOTTOM_RIGHT) return i + key_length(p, b) - rows_of(p, b);
  return i;
}

// Where the mask tensor's element for key j of a row lies; -1 where the key stands before its columns.
inline std::int64_t mask_index(const tessera_attention& p, std::int64_t b, std::int64_t h, std::int64_t i,
                               std::int64_t j) {
  const tessera_tensor& t = p.mask.tensor;
  const std::int64_t entry = p.query_offsets.data != nullptr ? 0 : b;
  if (p.mask.tensor_align != TESSERA_ALIGN_BOTTOM_RIGHT)
    return broadcast_index(t, entry, h, first_row(p, b) + i, j);
  const std::int32_t last = t.rank - 1;
  const std::int64_t column = j - (key_length(p, b) - t.shape[last]);
  if (column < 0) return -1;
  return broadcast_index(t, entry, h, first_row(p, b) + i, 0) + column * t.strides[last];
}

// False if the band, the mask tensor (a boolean false, an additive -inf) or the number of keys hide key j
// from query i.
inline bool visible(const tessera_attention& p, std::int64_t b, std::int64_t h, std::int64_t i,
                    std::int64_t j) {
  if (j >= key_length(p, b)) return false;
  if (p.mask.align != TESSERA_ALIGN_NONE) {
    const std::int64_t at = position(p, b, i);
    if (p.mask.left != TESSERA_UNBOUNDED && j < at - p.mask.left) return false;
    if (p.mask.right != TESSERA_UNBOUNDED && j > at + p.mask.right) return false;
  }
  const tessera_tensor& t = p.mask.tensor;
  if (t.data == nullptr) return true;
  const std::int64_t at = mask_index(p, b, h, i, j);
  if (at < 0) return true;
  if (t.dtype == TESSERA_BOOL) return static_cast<const unsigned char*>(t.data)[at] != 0;
  return load(t.data, t.dtype, at) != -INFINITY;
}

// What a floating mask tensor adds to the score of key j.
inline double mask_bias(const tessera_attention& p, const Row& row, std::int64_t j) {
  const std::int64_t at = mask_index(p, row.batch, row.head, row.query, j);
  return at < 0 ? 0.0 : load(p.mask.tensor.data, p.mask.tensor.dtype, at);
}

inline bool has_additive_mask(const tessera_attention& p) {
  return p.mask.tensor.data != nullptr && p.mask.tensor.dtype != TESSERA_BOOL;
}

inline float alibi_slope(const tessera_attention& p, std::int64_t b, std::int64_t h) {
  const tessera_tensor& t = p.alibi_slopes;
  if (t.data == nullptr) return 0.0f;
  const std::int64_t at = t.rank == 1 ? h * t.strides[0] : b * t.strides[0] + h * t.strides[1];
  return static_cast<const float*>(t.data)[at];
}

inline float sink(const tessera_attention& p, std::int64_t h) {
  if (p.sinks.data == nullptr) return -INFINITY;
  return static_cast<const float*>(p.sinks.data)[h * p.sinks.strides[0]];
}

// The elements of a stored row, scaled in the precision of the caller.
template <class Real>
void read_row(const tessera_attention& p, const tessera_tensor& t, const tessera_tensor& scales,
              const Stored& at, Real* out) {
  const std::int64_t start = row_start(t, at.outer, at.head, at.row);
  for (std::int64_t d = 0; d < t.shape[3]; ++d) {
    out[d] = static_cast<Real>(load(t.data, t.dtype, start + d * t.strides[3])) *
             static_cast<Real>(scale_at(p, scales, at, d));
  }
}

// The query row of a problem.
template <class Real>
std::vector<Real> query_row(const tessera_attention& p, const Row& row) {
  std::vector<Real> out(static_cast<std::size_t>(p.query.shape[3]));
  read_row(p, p.query, p.query_scales, stored_query(p, row), out.data());
  return out;
}

// All keys of one batch entry and head of key or value, contiguous and in one type; NaN where there is no
// page.
template <class Real>
std::vector<Real> matrix(const tessera_attention& p, const tessera_tensor& t, const tessera_tensor& scales,
                         std::int64_t b, std::int64_t h) {
  const std::int64_t rows = key_length(p, b), columns = t.shape[3];
  std::vector<Real> out(static_cast<std::size_t>(rows * columns), std::numeric_limits<Real>::quiet_NaN());
  for (std::int64_t r = 0; r < rows; ++r) {
    if (const Stored at = stored_key(p, t, b, h, r); at.exists)
      read_row(p, t, scales, at, out.data() + r * columns);
  }
  return out;
}

// All keys of one batch entry and head, each with its tail, if there is one, behind the columns of key.
template <class Real>
std::vector<Real> keys_of(const tessera_attention& p, std::int64_t b, std::int64_t h) {
  std::vector<Real> key = matrix<Real>(p, p.key, p.key_scales, b, h);
  if (p.key_tail.rank == 0) return key;
  const std::vector<Real> tail = matrix<Real>(p, p.key_tail, tessera_tensor{}, b, h);
  const auto columns = static_cast<std::ptrdiff_t>(p.key.shape[3]),
             more = static_cast<std::ptrdiff_t>(p.key_tail.shape[3]);
  std::vector<Real> out;
  for (std::ptrdiff_t j = 0; j < static_cast<std::ptrdiff_t>(key_length(p, b)); ++j) {
    out.insert(out.end(), key.begin() + j * columns, key.begin() + (j + 1) * columns);
    out.insert(out.end(), tail.begin() + j * more, tail.begin() + (j + 1) * more);
  }
  return out;
}

// Keys and values of one batch entry and key/value head.
template <class Real>
struct Head {
  std::int64_t batch = kNoEntry, kv_head = -1;
  std::vector<Real> key, value;

  // Makes it that of the row, unless it is already.
  void load_for(const tessera_attention& p, const Sizes& n, const Row& row) {
    const std::int64_t wanted = row.head / (n.heads / n.kv_heads);
    if (batch == row.batch && kv_head == wanted) return;
    batch = row.batch;
    kv_head = wanted;
    key = keys_of<Real>(p, batch, kv_head);
    value = matrix<Real>(p, p.value, p.value_scales, batch, kv_head);
  }
};

// The row of prior part n: [value_dim] outputs and its lse.
template <class Real>
struct PriorRow {
  std::vector<Real> value;
  Real lse;

  PriorRow(const tessera_attention& p, const Sizes& n, std::int64_t part, const Row& row) {
    const std::int64_t at = first_row(p, row.batch) + row.query;
    const tessera_tensor& l = p.prior_lse;
    lse = static_cast<Real>(
        load(l.data, l.dtype, part * l.strides[0] + row.head * l.strides[1] + at * l.strides[2]));
    const std::int64_t start = row_start(p.prior_output, part, row.head, at);
    for (std::int64_t d = 0; d < n.value_dim; ++d)
      value.push_back(static_cast<Real>(load(p.prior_output.data, p.prior_output.dtype, start + d)));
  }
};

}  // namespace tessera::oracle
