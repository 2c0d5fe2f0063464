// How the judges read a problem: sizes, broadcasting and visibility, each straight from the words of
// tessera.h. Used by float64.cpp and plain.cpp and by nothing else.
#pragma once

#include <tessera/tessera.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "oracle/oracle.hpp"

namespace tessera::oracle {

struct Sizes {
  explicit Sizes(const tessera_attention& p)
      : batch(p.query.shape[0]),
        heads(p.query.shape[1]),
        kv_heads(p.key.shape[1]),
        queries(p.query.shape[2]),
        keys(p.key.shape[2]),
        dim(p.query.shape[3]),
        value_dim(p.value.shape[3]) {}
  std::int64_t batch, heads, kv_heads, queries, keys, dim, value_dim;
};

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
  const tessera_tensor& t = p.key_lengths;
  if (t.data == nullptr) return p.key.shape[2];
  const std::int64_t at = b * t.strides[0];
  if (t.dtype == TESSERA_I32) return static_cast<const std::int32_t*>(t.data)[at];
  return static_cast<const std::int64_t*>(t.data)[at];
}

// Where query i of batch entry b stands on the key axis.
inline std::int64_t position(const tessera_attention& p, std::int64_t b, std::int64_t i) {
  if (p.mask.align == TESSERA_ALIGN_BOTTOM_RIGHT) return i + key_length(p, b) - p.query.shape[2];
  return i;
}

// False if the band, the mask tensor (a boolean false, an additive -inf) or key_lengths hide key j from query
// i.
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
  const std::int64_t at = broadcast_index(t, b, h, i, j);
  if (t.dtype == TESSERA_BOOL) return static_cast<const unsigned char*>(t.data)[at] != 0;
  return load(t.data, t.dtype, at) != -INFINITY;
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

// All rows of one batch entry and head of a tensor, contiguous and in one type.
template <class Real>
std::vector<Real> matrix(const tessera_tensor& t, std::int64_t b, std::int64_t h) {
  const std::int64_t rows = t.shape[2], columns = t.shape[3];
  std::vector<Real> out(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t start = row_start(t, b, h, r);
    for (std::int64_t c = 0; c < columns; ++c) {
      out[static_cast<std::size_t>(r * columns + c)] = static_cast<Real>(load(t.data, t.dtype, start + c));
    }
  }
  return out;
}

}  // namespace tessera::oracle
