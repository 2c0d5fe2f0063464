// The same over keys in two tensors: key, of codes or of the query's type, and its tail, of the query's type.
// Beside codes the query is of any kind, which is asked for every element, as in kernel.hpp.
//
//   query   [ meets key, times its scale ][ meets the tail ]
#pragma once

#include "cuda/fp8_rows/kernel.hpp"

namespace tessera::cuda::fp8_rows {

// Element d of a row that is no code.
__device__ inline float wide_at(QueryKind kind, const char* row, int d) {
  switch (kind) {
    case QueryKind::f16:
      return tile::to_float(reinterpret_cast<const __half*>(row)[d]);
    case QueryKind::bf16:
      return tile::to_float(reinterpret_cast<const __nv_bfloat16*>(row)[d]);
    default:
      return reinterpret_cast<const float*>(row)[d];
  }
}

// Key: a code, a byte each, or the query's type.
template <class Key>
struct TailRows : tile::CodedRows<Key> {
  static constexpr bool kCodes = sizeof(Key) == 1;
  using Base = tile::CodedRows<Key>;
  using Place = typename Base::Place;
  const TailParams& params;

  template <class View>
  __device__ TailRows(const TailParams& all, const View& v, tile::RowIndex at)
      : Base(all.problem, all.mixed.coded, v, at), params(all) {}

  // Where a row is whose elements are as long as the query's, given where it would be if they had a byte
  // each.
  __device__ const char* widened(const Tensor& t, const Key* row) const {
    const char* const data = static_cast<const char*>(t.data);
    return data +
           (reinterpret_cast<const char*>(row) - data) * (params.mixed.query == QueryKind::f32 ? 4 : 2);
  }

  // Scaled: the tail is not.
  __device__ float dot(int key, int lane) const {
    const Place at = this->place(key);
    const Key *const row = this->row_of(this->p.kv.key, at), *const more = this->row_of(params.tail, at);
    const Tensor& tail = params.tail;
    const int key_dim = params.key_dim, dim = this->p.sizes.dim;
    float sum = 0.0f;
    if constexpr (kCodes) {
      const QueryKind kind = params.mixed.query;
      const char *const query = widened(this->p.query, this->query_row), *const rest = widened(tail, more);
      for (int d = lane; d < key_dim; d += 32)
        sum = fmaf(wide_at(kind, query, d), ptx::to_float(row[d]), sum);
      sum *= tile::scale_at(this->coded.key, at.outer, this->kv_head, at.row);
      for (int d = key_dim + lane; d < dim; d += 32)
        sum = fmaf(wide_at(kind, query, d), wide_at(kind, rest, d - key_dim), sum);
    } else {
      const Key* const query = this->query_row;
      for (int d = lane; d < dim; d += 32)
        sum = fmaf(tile::to_float(query[d]), tile::to_float(d < key_dim ? row[d] : more[d - key_dim]), sum);
    }
    return sum;
  }
  __device__ static float scale(int) { return 1.0f; }
  __device__ auto values(int key) const {
    if constexpr (kCodes) {
      return Base::values(key);
    } else {
      const Key* const row = this->row_of(this->p.kv.value, this->place(key));
      return [row](int d) { return tile::to_float(row[d]); };
    }
  }
};

// Four blocks an SM: left to itself the compiler aims at more, and spills.
template <class Key, class T>
__global__ void __launch_bounds__(kThreads, 4) attend_tails(const __grid_constant__ TailParams params) {
  if constexpr (sm80::pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  tile::clear_unowned_rows<T>(params.problem);
  attend_rows<TailRows<Key>, T>(params);
}

}  // namespace tessera::cuda::fp8_rows
