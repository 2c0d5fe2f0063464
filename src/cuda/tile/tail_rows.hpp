// Rows of keys in two tensors, element by element: key, of codes or of the query's type, and its tail, of the
// query's type. Beside codes the query is of any kind, which is asked for every element, as in
// mixed_rows.hpp.
//
//   query   [ meets key, times its scale ][ meets the tail ]
#pragma once

#include "cuda/mixed.hpp"
#include "cuda/ptx/codes.hpp"
#include "cuda/ptx/whole.hpp"
#include "cuda/tile/careful.hpp"
#include "cuda/tile/coded_rows.hpp"

namespace tessera::cuda::tile {

// Element d of a row that is no code.
__device__ inline float wide_at(QueryKind kind, const char* row, int d) {
  switch (kind) {
    case QueryKind::f16:
      return to_float(reinterpret_cast<const __half*>(row)[d]);
    case QueryKind::bf16:
      return to_float(reinterpret_cast<const __nv_bfloat16*>(row)[d]);
    default:
      return reinterpret_cast<const float*>(row)[d];
  }
}

// Key: a code, a byte each, or the query's type.
template <class Key>
struct TailRows : CodedRows<Key> {
  static constexpr bool kCodes = sizeof(Key) == 1;
  using Base = CodedRows<Key>;
  using Place = typename Base::Place;
  QueryKind kind;
  const Tail& tail;

  // `coded`: nothing, where Key is no code.
  template <class View>
  __device__ TailRows(const Params& params, const Coded& coded, QueryKind query, const Tail& of,
                      const View& v, RowIndex at)
      : Base(params, coded, v, at), kind(query), tail(of) {}

  // Where a row is whose elements are as long as the query's, given where it would be if they had a byte
  // each.
  __device__ const char* widened(const Tensor& t, const Key* row) const {
    const char* const data = static_cast<const char*>(t.data);
    return data + (reinterpret_cast<const char*>(row) - data) * (kind == QueryKind::f32 ? 4 : 2);
  }

  // Scaled: the tail is not.
  __device__ float dot(int key, int lane) const {
    const Place at = this->place(key);
    const Key *const row = this->row_of(this->p.kv.key, at), *const more = this->row_of(tail.keys, at);
    const int key_dim = tail.key_dim, dim = this->p.sizes.dim;
    float sum = 0.0f;
    if constexpr (kCodes) {
      const char *const query = widened(this->p.query, this->query_row), *const rest =
                                                                             widened(tail.keys, more);
      for (int d = lane; d < key_dim; d += 32)
        sum = fmaf(wide_at(kind, query, d), ptx::to_float(row[d]), sum);
      sum *= scale_at(this->coded.key, at.outer, this->kv_head, at.row);
      for (int d = key_dim + lane; d < dim; d += 32)
        sum = fmaf(wide_at(kind, query, d), wide_at(kind, rest, d - key_dim), sum);
    } else {
      const Key* const query = this->query_row;
      for (int d = lane; d < dim; d += 32)
        sum = fmaf(to_float(query[d]), to_float(d < key_dim ? row[d] : more[d - key_dim]), sum);
    }
    return sum;
  }
  __device__ static float scale(int) { return 1.0f; }
  __device__ auto values(int key) const {
    if constexpr (kCodes) {
      return Base::values(key);
    } else {
      const Key* const row = this->row_of(this->p.kv.value, this->place(key));
      return [row](int d) { return to_float(row[d]); };
    }
  }
};

}  // namespace tessera::cuda::tile
