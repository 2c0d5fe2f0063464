// What a block sees of a problem: the sequence that it works on, and one pack of its heads. Heads that share
// K and V may share a block: row r is then query r / pack of head first_head + r % pack, so that K/V are
// loaded once for all of them.
#pragma once

#include "cuda/params.hpp"
#include "cuda/tile/band.hpp"

namespace tessera::cuda::tile {

struct RowIndex {
  int query, head;
};

// One entry of the batch, for whoever needs a length: they may differ from entry to entry. Asked anew where
// it is needed: few have a register to keep the answer in.
struct Sequence {
  const Params& p;
  int batch;

  __device__ int queries() const { return p.sizes.queries; }
  __device__ int keys() const {
    if (p.kv.lengths_i32 != nullptr)
      return min(max(p.kv.lengths_i32[batch * p.kv.lengths_stride], 0), p.sizes.keys);
    if (p.kv.lengths_i64 != nullptr) {
      const long long length = p.kv.lengths_i64[batch * p.kv.lengths_stride];
      return static_cast<int>(length < 0 ? 0 : length > p.sizes.keys ? p.sizes.keys : length);
    }
    return p.sizes.keys;
  }
  __device__ Band band() const {
    const int all = keys();
    return {all, p.visibility.align_bottom_right != 0 ? all - queries() : 0, p.visibility.left,
            p.visibility.right};
  }
};
// Whether keys() reads memory, which kernels before this one may still be writing.
__device__ inline bool has_key_lengths(const Params& p) {
  return p.kv.lengths_i32 != nullptr || p.kv.lengths_i64 != nullptr;
}

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
  __device__ RowIndex index(int row) const {
    const int query_index = query_of(row);
    return {query_index, first_head + row - query_index * static_cast<int>(pack.divisor)};
  }
};

// `pack_index` counts packs of heads within batch entry b.
template <class T>
__device__ inline BlockView<T> block_view(const Params& p, int b, int pack_index) {
  const int pack = static_cast<int>(p.pack.divisor), first_head = pack_index * pack;
  const int kv = pack == p.sizes.group ? pack_index : first_head / p.sizes.group;
  const Sequence sequence{p, b};
  BlockView<T> v;
  v.query = static_cast<const T*>(p.query.data) + b * p.query.strides.batch;
  v.output = static_cast<T*>(p.output.data) + b * p.output.strides.batch;
  v.lse = p.output.lse == nullptr ? nullptr : p.output.lse + b * p.output.lse_strides.batch;
  v.key = static_cast<const T*>(p.kv.key.data) + b * p.kv.key.strides.batch + kv * p.kv.key.strides.head;
  v.value =
      static_cast<const T*>(p.kv.value.data) + b * p.kv.value.strides.batch + kv * p.kv.value.strides.head;
  v.batch = b;
  v.first_head = first_head;
  v.pack = p.pack;
  v.rows = sequence.queries() * pack;
  v.band = sequence.band();
  return v;
}

template <class T>
__device__ inline const T* query_row(const Params& p, const BlockView<T>& v, RowIndex at) {
  return v.query + at.head * p.query.strides.head + at.query * p.query.strides.row;
}
template <class T>
__device__ inline T* output_row(const Params& p, const BlockView<T>& v, RowIndex at) {
  return v.output + at.head * p.output.strides.head + at.query * p.output.strides.row;
}
template <class T>
__device__ inline void write_lse(const Params& p, const BlockView<T>& v, RowIndex at, float lse) {
  if (v.lse != nullptr)
    v.lse[at.head * p.output.lse_strides.head + at.query * p.output.lse_strides.row] = lse;
}

}  // namespace tessera::cuda::tile
