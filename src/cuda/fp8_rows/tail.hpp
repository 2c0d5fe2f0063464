// The same over keys in two tensors: key, of codes or as wide as the query, and its tail, of the query's
// type. What the elements of query and tail are is asked for every one of them.
//
//   query   [ meets key, times its scale ][ meets the tail ]
#pragma once

#include "cuda/fp8_rows/kernel.hpp"

namespace tessera::cuda::fp8_rows {

// Keys and values of the query's type; which one that is, the parameters say. Counted as of a byte each, like
// codes, until an element's address is wanted.
struct Wide {
  unsigned char unused;
};
template <class Key>
inline constexpr bool kIsWide = false;
template <>
inline constexpr bool kIsWide<Wide> = true;

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

template <class Key>
struct TailRows : tile::CodedRows<Key> {
  using Base = tile::CodedRows<Key>;
  const Tensor& tail;
  const char* query;
  int key_dim;
  QueryKind kind;

  template <class View>
  __device__ TailRows(const TailParams& params, const View& v, tile::RowIndex at)
      : Base(params.problem, params.coded, v, at),
        tail(params.tail),
        key_dim(params.key_dim),
        kind(params.query_kind) {
    query = widened(params.problem.query, this->query_row);
  }

  // A row of the query's type, given where it would be if elements had a byte each.
  __device__ const char* widened(const Tensor& t, const Key* row) const {
    const char* const data = static_cast<const char*>(t.data);
    return data + (reinterpret_cast<const char*>(row) - data) * (kind == QueryKind::f32 ? 4 : 2);
  }
  __device__ const char* wide_row(const Tensor& t, const typename Base::Place& at) const {
    return widened(t, this->row_of(t, at));
  }

  // Scaled: the tail is not.
  __device__ float dot(int key, int lane) const {
    const typename Base::Place at = this->place(key);
    float sum = 0.0f;
    if constexpr (kIsWide<Key>) {
      const char* const row = wide_row(this->p.kv.key, at);
      for (int d = lane; d < key_dim; d += 32)
        sum = fmaf(wide_at(kind, query, d), wide_at(kind, row, d), sum);
    } else {
      const Key* const row = this->row_of(this->p.kv.key, at);
      for (int d = lane; d < key_dim; d += 32)
        sum = fmaf(wide_at(kind, query, d), ptx::to_float(row[d]), sum);
      sum *= tile::scale_at(this->coded.key, at.outer, this->kv_head, at.row);
    }
    const char* const more = wide_row(tail, at);
    for (int d = key_dim + lane; d < this->p.sizes.dim; d += 32)
      sum = fmaf(wide_at(kind, query, d), wide_at(kind, more, d - key_dim), sum);
    return sum;
  }
  __device__ static float scale(int) { return 1.0f; }
  __device__ auto values(int key) const {
    if constexpr (kIsWide<Key>) {
      return [kind = kind, row = wide_row(this->p.kv.value, this->place(key))](int d) {
        return wide_at(kind, row, d);
      };
    } else {
      return Base::values(key);
    }
  }
};

template <class Key, class T>
__global__ void __launch_bounds__(kThreads) attend_tails(const __grid_constant__ TailParams params) {
  if constexpr (sm80::pdl(kArch)) {
    ptx::launch_dependents();
    ptx::wait_for_dependencies();
  }
  tile::clear_unowned_rows<T>(params.problem);
  attend_rows<TailRows<Key>, T>(params);
}

}  // namespace tessera::cuda::fp8_rows
