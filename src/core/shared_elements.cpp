#include "core/shared_elements.hpp"

#include <algorithm>
#include <cstdint>

#include "core/problem.hpp"

namespace tessera::core {
namespace {

constexpr int kDim = 3;  // the last dimension; those before count rows

std::int64_t span_of(const tessera_tensor& t) {
  std::int64_t span = 1;
  for (int d = 0; d <= kDim; ++d) span += (t.shape[d] - 1) * t.strides[d];
  return span;
}

// Whether it fills what it spans.
bool is_dense(const tessera_tensor& t) {
  std::int64_t count = 1;
  for (int d = 0; d <= kDim; ++d) count *= t.shape[d];
  return count == span_of(t);
}

bool same_rows(const tessera_tensor& a, const tessera_tensor& b) {
  const auto contiguous = [](const tessera_tensor& t) { return t.shape[kDim] == 1 || t.strides[kDim] == 1; };
  for (int d = 0; d < kDim; ++d)
    if (a.shape[d] != b.shape[d] || (a.shape[d] > 1 && a.strides[d] != b.strides[d])) return false;
  return contiguous(a) && contiguous(b);
}

// Whether some row of b meets some row of a, b standing `distance` elements behind a. Rows are apart by that
// and by steps of every dimension, forwards or backwards. The steps of the smaller strides together, and a
// row, reach less far than one step of the largest, so that of those only two numbers come into question.
bool rows_meet(const tessera_tensor& a, const tessera_tensor& b, std::int64_t distance, const int* by_stride,
               int n = 0) {
  if (n == kDim) return -b.shape[kDim] < distance && distance < a.shape[kDim];
  const int d = by_stride[n];
  const std::int64_t most = a.shape[d] - 1;
  if (most == 0) return rows_meet(a, b, distance, by_stride, n + 1);
  const std::int64_t stride = a.strides[d], steps = distance / stride - (distance % stride < 0 ? 1 : 0);
  for (const std::int64_t times : {steps, steps + 1}) {
    if (times < -most || times > most) continue;
    if (rows_meet(a, b, distance - times * stride, by_stride, n + 1)) return true;
  }
  return false;
}

}  // namespace

bool share_an_element(const tessera_tensor& a, const tessera_tensor& b) {
  const auto address = [](const tessera_tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
  const std::int64_t distance =
      static_cast<std::int64_t>(address(b) - address(a)) / dtype_size(a.dtype);  // may be negative
  const std::int64_t a_span = span_of(a), b_span = span_of(b);
  if (distance >= a_span || distance <= -b_span) return false;
  if (same_rows(a, b)) {
    int by_stride[kDim] = {0, 1, 2};
    std::sort(by_stride, by_stride + kDim, [&](int c, int d) { return a.strides[c] > a.strides[d]; });
    return rows_meet(a, b, distance, by_stride);
  }
  // The first or the last element of one lies in what the other fills.
  const std::int64_t a_last = a_span - 1, b_last = distance + b_span - 1;
  const auto in_a = [&](std::int64_t at) { return at >= 0 && at <= a_last; };
  const auto in_b = [&](std::int64_t at) { return at >= distance && at <= b_last; };
  return (is_dense(a) && (in_a(distance) || in_a(b_last))) || (is_dense(b) && (in_b(0) || in_b(a_last)));
}

}  // namespace tessera::core
