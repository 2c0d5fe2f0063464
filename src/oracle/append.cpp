#include "oracle/append.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "oracle/oracle.hpp"
#include "oracle/reading.hpp"

namespace tessera::oracle {
namespace {

// From the first element to behind the last one.
std::size_t span_bytes(const tessera_tensor& t) {
  std::int64_t last = 0;
  for (std::int32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 0) return 0;
    last += (t.shape[d] - 1) * t.strides[d];
  }
  return static_cast<std::size_t>(last + 1) * tessera_dtype_size(t.dtype);
}

std::vector<unsigned char> copy_of(const tessera_tensor& t) {
  const std::size_t bytes = span_bytes(t);
  std::vector<unsigned char> copy(bytes + (bytes == 0 ? 1 : 0));  // never null: null is "left out"
  if (bytes > 0) std::memcpy(copy.data(), t.data, bytes);
  return copy;
}

// A row of a tensor: where it begins, and how far its elements are apart.
struct Place {
  void* data;
  std::int64_t start, step;
};

void copy_row(const tessera_tensor& from, std::int64_t start, const Place& to) {
  const std::size_t size = tessera_dtype_size(from.dtype);
  for (std::int64_t d = 0; d < from.shape[3]; ++d) {
    std::memcpy(
        static_cast<unsigned char*>(to.data) + static_cast<std::size_t>(to.start + d * to.step) * size,
        static_cast<const unsigned char*>(from.data) +
            static_cast<std::size_t>(start + d * from.strides[3]) * size,
        size);
  }
}

// Stores x / scale as a code, as tessera_quantise has it: what is beyond the largest number becomes that, in
// i8 -127 ... 127, where NaN is 0.
void store_code(const Place& to, tessera_dtype dtype, std::int64_t d, double x, float scale) {
  const double largest = dtype == TESSERA_F8E4M3 ? 448 : dtype == TESSERA_F8E5M2 ? 57344 : 127;
  double quotient = static_cast<double>(static_cast<float>(x / static_cast<double>(scale)));
  if (std::isnan(quotient)) {
    quotient = dtype == TESSERA_I8 ? 0 : std::numeric_limits<double>::quiet_NaN();
  } else {
    quotient = std::clamp(quotient, -largest, largest);
  }
  store(to.data, dtype, to.start + d * to.step, quotient);
}

// One operation in f32. In float64 sums, differences and products of floats lose nothing that the one
// rounding to float would have seen.
double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }

// Where row i of entry b stands in the tables of rope.
std::int64_t table_row(const tessera_attention& p, std::int64_t b, std::int64_t i) {
  if (p.positions.rank == 0) return std::max<std::int64_t>(position(p, b, i), 0);
  if (p.positions.rank == 1) return whole(p.positions, first_row(p, b) + i);
  tessera_tensor row = p.positions;
  row.strides[0] = 1;
  return whole(row, b * p.positions.strides[0] + i * p.positions.strides[1]);
}

// Turns a row in place by the angles of a row of the tables.
void turn(const tessera_attention& p, std::int64_t angles, tessera_dtype dtype, const Place& row) {
  if (p.rope.cos.rank == 0) return;
  const tessera_tensor &cos = p.rope.cos, &sin = p.rope.sin;
  const std::int64_t n = cos.shape[1];
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t one = p.rope.interleaved != 0 ? p.rope.first + 2 * j : p.rope.first + j;
    const std::int64_t other = p.rope.interleaved != 0 ? one + 1 : p.rope.first + n + j;
    const double x = load(row.data, dtype, row.start + one * row.step);
    const double y = load(row.data, dtype, row.start + other * row.step);
    const double c = load(cos.data, TESSERA_F32, angles * cos.strides[0] + j * cos.strides[1]);
    const double s = load(sin.data, TESSERA_F32, angles * sin.strides[0] + j * sin.strides[1]);
    store(row.data, dtype, row.start + one * row.step, rounded(rounded(x * c) - rounded(y * s)));
    store(row.data, dtype, row.start + other * row.step, rounded(rounded(y * c) + rounded(x * s)));
  }
}

// Where a row of key or value begins in a copy of it that stands elsewhere.
Place place_in(const tessera_tensor& t, void* copy, const Stored& at) {
  return {copy, row_start(t, at.outer, at.head, at.row), t.strides[3]};
}

constexpr std::int64_t kNotTurned = -1;

// A new row to its place `at` in a copy of key or value, turned by a row of the tables.
void store_row(const tessera_attention& p, const tessera_tensor& from, std::int64_t start,
               const tessera_tensor& t, const tessera_tensor& scales, const Stored& at, void* copy,
               std::int64_t angles) {
  const Place to = place_in(t, copy, at);
  if (t.dtype == from.dtype) {
    copy_row(from, start, to);
    if (angles != kNotTurned) turn(p, angles, t.dtype, to);
    return;
  }
  std::vector<float> row(static_cast<std::size_t>(from.shape[3]));
  for (std::int64_t d = 0; d < from.shape[3]; ++d)
    store(row.data(), TESSERA_F32, d, load(from.data, from.dtype, start + d * from.strides[3]));
  if (angles != kNotTurned) turn(p, angles, TESSERA_F32, {row.data(), 0, 1});
  for (std::int64_t d = 0; d < from.shape[3]; ++d)
    store_code(to, t.dtype, d, load(row.data(), TESSERA_F32, d), scale_at(p, scales, at, d));
}

// A new key whose last elements belong to the tail: turned as a whole, in f32, then each part as its tensor
// has it.
void store_row_with_tail(const tessera_attention& p, std::int64_t start, const Stored& at, void* key,
                         void* key_tail, std::int64_t angles) {
  const std::int64_t dim = p.new_key.shape[3], in_key = p.key.shape[3];
  std::vector<float> row(static_cast<std::size_t>(dim));
  for (std::int64_t d = 0; d < dim; ++d)
    store(row.data(), TESSERA_F32, d,
          load(p.new_key.data, p.new_key.dtype, start + d * p.new_key.strides[3]));
  if (angles != kNotTurned) turn(p, angles, TESSERA_F32, {row.data(), 0, 1});
  const Place of_key = place_in(p.key, key, at), of_tail = place_in(p.key_tail, key_tail, at);
  for (std::int64_t d = 0; d < dim; ++d) {
    const double x = load(row.data(), TESSERA_F32, d);
    if (d >= in_key)
      store(of_tail.data, p.key_tail.dtype, of_tail.start + (d - in_key) * of_tail.step, x);
    else if (p.key.dtype == p.new_key.dtype)
      store(of_key.data, p.key.dtype, of_key.start + d * of_key.step, x);
    else
      store_code(of_key, p.key.dtype, d, x, scale_at(p, p.key_scales, at, d));
  }
}

}  // namespace

void store_new_rows(const tessera_attention& p, void* key, void* value, void* key_tail) {
  if (p.new_key.rank == 0) return;
  const Sizes n(p);
  const bool ragged = p.query_offsets.data != nullptr;
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t i = 0; i < rows_of(p, b); ++i) {
      const std::int64_t j = position(p, b, i);
      if (j < 0) continue;
      for (std::int64_t h = 0; h < n.kv_heads; ++h) {
        const std::int64_t outer = ragged ? 0 : b, row = first_row(p, b) + i;
        const Stored at = stored_key(p, p.key, b, h, j);
        if (!at.exists) continue;
        const std::int64_t angles = p.rope.cos.rank > 0 ? table_row(p, b, i) : 0;
        const std::int64_t from = row_start(p.new_key, outer, h, row);
        if (p.key_tail.rank > 0)
          store_row_with_tail(p, from, at, key, key_tail, p.rope.cos.rank > 0 ? angles : kNotTurned);
        else
          store_row(p, p.new_key, from, p.key, p.key_scales, at, key, angles);
        if (p.new_value.rank == 0) continue;
        store_row(p, p.new_value, row_start(p.new_value, outer, h, row), p.value, p.value_scales, at, value,
                  kNotTurned);
      }
    }
  }
}

std::vector<unsigned char> turned_query(const tessera_attention& p) {
  const Sizes n(p);
  const std::size_t row_bytes = static_cast<std::size_t>(n.dim) * tessera_dtype_size(p.query.dtype);
  const std::int64_t outers = p.query.shape[0];
  std::vector<unsigned char> out(static_cast<std::size_t>(outers * n.heads * n.queries) * row_bytes +
                                 (outers * n.queries == 0 ? 1 : 0));
  const auto at = [&](std::int64_t outer, std::int64_t h, std::int64_t row) {
    return Place{out.data(), ((outer * n.heads + h) * n.queries + row) * n.dim, 1};
  };
  for (std::int64_t outer = 0; outer < outers; ++outer)
    for (std::int64_t h = 0; h < n.heads; ++h)
      for (std::int64_t row = 0; row < n.queries; ++row)
        copy_row(p.query, row_start(p.query, outer, h, row), at(outer, h, row));
  for (std::int64_t b = 0; b < n.batch && p.rope.cos.rank > 0; ++b)
    for (std::int64_t i = 0; i < rows_of(p, b); ++i)
      for (std::int64_t h = 0; h < n.heads; ++h) {
        const Stored row = stored_query(p, {b, h, i});
        turn(p, table_row(p, b, i), p.query.dtype, at(row.outer, row.head, row.row));
      }
  return out;
}

Rest::Rest(const tessera_attention& p) : problem_(p) {
  if (p.new_key.rank > 0) {
    key_ = copy_of(p.key);
    if (p.new_value.rank > 0) value_ = copy_of(p.value);
    if (p.key_tail.rank > 0) key_tail_ = copy_of(p.key_tail);
    store_new_rows(p, key_.data(), value_.data(), key_tail_.data());
    problem_.key.data = key_.data();
    if (p.key_tail.rank > 0) problem_.key_tail.data = key_tail_.data();
    problem_.value.data = p.new_value.rank > 0 ? value_.data() : key_.data();
  }
  if (p.rope.cos.rank > 0) {
    query_ = turned_query(p);
    tessera_tensor& query = problem_.query;
    query = tessera_tensor_4d(query_.data(), query.dtype, query.shape[0], query.shape[1], query.shape[2],
                              query.shape[3]);
  }
  problem_.new_key = problem_.new_value = problem_.positions = TESSERA_TENSOR_NONE;
  problem_.rope = {};
}

}  // namespace tessera::oracle
