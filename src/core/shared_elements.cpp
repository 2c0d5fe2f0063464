#include "core/shared_elements.hpp"

#include <algorithm>
#include <cstdint>

#include "core/problem.hpp"

namespace tessera::core {
namespace {

constexpr int kDim = 3;  // the last dimension; those before count rows

// A tensor in bytes.
struct Bytes {
  std::int64_t shape[kDim], strides[kDim];  // of rows; a dimension with one index has stride 0
  std::int64_t row;                         // of a row whose elements are contiguous; 0 if they are not
  std::int64_t count, span;                 // of all elements, and from the first to the end of the last

  explicit Bytes(const tessera_tensor& t) {
    const std::int64_t size = dtype_size(t.dtype), columns = t.shape[kDim];
    row = columns == 1 || t.strides[kDim] == 1 ? columns * size : 0;
    count = columns * size;
    span = columns == 1 ? size : ((columns - 1) * t.strides[kDim] + 1) * size;
    for (int d = 0; d < kDim; ++d) {
      shape[d] = t.shape[d];
      strides[d] = t.shape[d] == 1 ? 0 : t.strides[d] * size;
      count *= shape[d];
      span += (shape[d] - 1) * strides[d];
    }
  }
  bool is_dense() const { return count == span; }
  bool has_rows_like(const Bytes& other) const {
    return row > 0 && other.row > 0 && std::equal(shape, shape + kDim, other.shape) &&
           std::equal(strides, strides + kDim, other.strides);
  }
};

// Whether some row of b meets some row of a, b standing `distance` bytes behind a. Rows are apart by that and
// by steps of every dimension, forwards or backwards. The steps of the smaller strides together, and a row,
// reach less far than one step of the largest, so that of those only two numbers come into question.
bool rows_meet(const Bytes& a, const Bytes& b, std::int64_t distance, const int* by_stride, int n = 0) {
  if (n == kDim) return -b.row < distance && distance < a.row;
  const int d = by_stride[n];
  const std::int64_t most = a.shape[d] - 1, stride = a.strides[d];
  if (most == 0) return rows_meet(a, b, distance, by_stride, n + 1);
  const std::int64_t steps = distance / stride - (distance % stride < 0 ? 1 : 0);
  for (const std::int64_t times : {steps, steps + 1}) {
    if (times < -most || times > most) continue;
    if (rows_meet(a, b, distance - times * stride, by_stride, n + 1)) return true;
  }
  return false;
}

}  // namespace

bool share_an_element(const tessera_tensor& first, const tessera_tensor& second) {
  const auto address = [](const tessera_tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
  const auto distance = static_cast<std::int64_t>(address(second) - address(first));  // may be negative
  const Bytes a(first), b(second);
  if (distance >= a.span || distance <= -b.span) return false;
  if (a.has_rows_like(b)) {
    int by_stride[kDim] = {0, 1, 2};
    std::sort(by_stride, by_stride + kDim, [&](int c, int d) { return a.strides[c] > a.strides[d]; });
    return rows_meet(a, b, distance, by_stride);
  }
  // The first or the last byte of one lies in what the other fills.
  const std::int64_t a_last = a.span - 1, b_last = distance + b.span - 1;
  const auto in_a = [&](std::int64_t at) { return at >= 0 && at <= a_last; };
  const auto in_b = [&](std::int64_t at) { return at >= distance && at <= b_last; };
  return (a.is_dense() && (in_a(distance) || in_a(b_last))) || (b.is_dense() && (in_b(0) || in_b(a_last)));
}

}  // namespace tessera::core
