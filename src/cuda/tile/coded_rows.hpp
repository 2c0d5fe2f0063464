// Rows of 8-bit tensors with their scales, element by element: for who computes with plain arithmetic
// (tile/careful.hpp).
#pragma once

#include "cuda/coded.hpp"
#include "cuda/ptx/codes.hpp"
#include "cuda/tile/element.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::tile {

__device__ inline float scale_at(const Scales& scales, int outer, int head, int row) {
  return scales.data == nullptr ? 1.0f : scales.data[scales.at(outer, head, row)];
}

// Elements of an output, of any type.
__device__ inline bool is_nan(OutputKind kind, const char* at) {
  const float x = kind == OutputKind::f32   ? *reinterpret_cast<const float*>(at)
                  : kind == OutputKind::f16 ? to_float(*reinterpret_cast<const __half*>(at))
                                            : to_float(*reinterpret_cast<const __nv_bfloat16*>(at));
  return x != x;
}
__device__ inline void put(OutputKind kind, void* row, int d, float x) {
  switch (kind) {
    case OutputKind::f16:
      static_cast<__half*>(row)[d] = from_float<__half>(x);
      break;
    case OutputKind::bf16:
      static_cast<__nv_bfloat16*>(row)[d] = from_float<__nv_bfloat16>(x);
      break;
    case OutputKind::f32:
      static_cast<float*>(row)[d] = x;
      break;
  }
}

// Of one query row: what careful_row() reads.
template <class Code>
struct CodedRows {
  const Params& p;
  const Coded& coded;
  const int* pages;
  const Code* query_row;
  int batch, kv_head, first_key;
  float query_scale;

  template <class View>
  __device__ CodedRows(const Params& params, const Coded& more, const View& v, RowIndex at)
      : p(params), coded(more), pages(v.pages), batch(v.batch), kv_head(at.head / p.sizes.group) {
    const AnySequence sequence{p, batch};
    const int row = sequence.first_query() + at.query;
    first_key = sequence.first_key();
    query_row = static_cast<const Code*>(p.query.data) + batch * p.query.strides.batch +
                at.head * p.query.strides.head + row * p.query.strides.row;
    query_scale = scale_at(coded.query, batch, at.head, row);
  }

  struct Place {
    int outer, row;
  };
  __device__ Place place(int key) const {
    if (pages != nullptr) return {page_of(p, pages, key), row_in_page(p, key)};
    return {batch, first_key + key};
  }
  template <class T>
  __device__ const Code* row_of(const T& tensor, const Place& at) const {
    return static_cast<const Code*>(tensor.data) + at.outer * tensor.strides.batch +
           kv_head * tensor.strides.head + at.row * tensor.strides.row;
  }

  // The row's output, given as one of T or f32.
  template <class Out>
  __device__ void put(const Out& out, int d, float x) const {
    tile::put(coded.output, out.row, d, x);
  }
  // The part of a dot product that `lane` has.
  __device__ float dot(int key, int lane) const {
    const Code* const row = row_of(p.kv.key, place(key));
    float sum = 0.0f;
    for (int d = lane; d < p.sizes.dim; d += 32)
      sum = fmaf(ptx::to_float(query_row[d]), ptx::to_float(row[d]), sum);
    return sum;
  }
  // What the whole of it is multiplied by.
  __device__ float scale(int key) const {
    const Place at = place(key);
    return query_scale * scale_at(coded.key, at.outer, kv_head, at.row);
  }
  __device__ auto values(int key) const {
    const Place at = place(key);
    const Code* const row = row_of(p.kv.value, at);
    const Scales& scales = coded.value;
    const long long first = scales.at(at.outer, kv_head, at.row), column = coded.value_column;
    return [row, &scales, first, column](int d) {
      const float scale = scales.data == nullptr ? 1.0f : scales.data[first + d * scales.channel];
      return ptx::to_float(row[d * column]) * scale;
    };
  }
};

}  // namespace tessera::cuda::tile
