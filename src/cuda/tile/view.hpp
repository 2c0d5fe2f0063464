// One (batch, pack of heads) of a problem as a block sees it. Heads that share K and V may share a block:
// row r is then query r / pack of head first_head + r % pack, so that K/V are loaded once for all of them.
#pragma once

#include "cuda/params.hpp"
#include "cuda/tile/band.hpp"

namespace tessera::cuda::tile {

struct RowPlace {
  int query, head;
};

template <class T>
struct BlockView {
  const T* query;  // of this batch entry
  T* output;
  float* lse;    // or null
  const T* key;  // row 0 of this K/V head
  const T* value;
  int batch, first_head;
  Divider pack;
  int rows;  // queries * pack
  Band band;

  __device__ int query_of(int row) const { return pack.divide(row); }
  __device__ RowPlace place(int row) const {
    const int query_index = query_of(row);
    return {query_index, first_head + row - query_index * static_cast<int>(pack.divisor)};
  }
};

__device__ inline bool has_key_lengths(const Params& p) {
  return p.key_lengths_i32 != nullptr || p.key_lengths_i64 != nullptr;
}
__device__ inline int key_length(const Params& p, int b) {
  if (p.key_lengths_i32 != nullptr) return min(max(p.key_lengths_i32[b * p.key_lengths_stride], 0), p.keys);
  if (p.key_lengths_i64 != nullptr) {
    const long long length = p.key_lengths_i64[b * p.key_lengths_stride];
    return static_cast<int>(length < 0 ? 0 : length > p.keys ? p.keys : length);
  }
  return p.keys;
}

__device__ inline Band band_of(const Params& p, int b) {
  const int keys = key_length(p, b);
  return {keys, p.align_bottom_right != 0 ? keys - p.queries : 0, p.left, p.right};
}

// `pack_index` counts packs of heads within batch entry b.
template <class T>
__device__ inline BlockView<T> block_view(const Params& p, int b, int pack_index) {
  const int pack = static_cast<int>(p.pack.divisor), first_head = pack_index * pack;
  const int kv = pack == p.group ? pack_index : first_head / p.group;
  BlockView<T> v;
  v.query = static_cast<const T*>(p.query) + b * p.query_strides.batch;
  v.output = static_cast<T*>(p.output) + b * p.output_strides.batch;
  v.lse = p.lse == nullptr ? nullptr : p.lse + b * p.lse_strides.batch;
  v.key = static_cast<const T*>(p.key) + b * p.key_strides.batch + kv * p.key_strides.head;
  v.value = static_cast<const T*>(p.value) + b * p.value_strides.batch + kv * p.value_strides.head;
  v.batch = b;
  v.first_head = first_head;
  v.pack = p.pack;
  v.rows = p.queries * pack;
  v.band = band_of(p, b);
  return v;
}

template <class T>
__device__ inline const T* query_row(const Params& p, const BlockView<T>& v, RowPlace at) {
  return v.query + at.head * p.query_strides.head + at.query * p.query_strides.row;
}
template <class T>
__device__ inline T* output_row(const Params& p, const BlockView<T>& v, RowPlace at) {
  return v.output + at.head * p.output_strides.head + at.query * p.output_strides.row;
}
template <class T>
__device__ inline void write_lse(const Params& p, const BlockView<T>& v, RowPlace at, float lse) {
  if (v.lse != nullptr) v.lse[at.head * p.lse_strides.head + at.query * p.lse_strides.row] = lse;
}

}  // namespace tessera::cuda::tile
