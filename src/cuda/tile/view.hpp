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
// it is needed: few have a register to keep the answer in. kAnywhere: entries may lie one behind the other,
// and keys in pages; kernels that take dense batches alone do not ask. What memory says is clamped.
template <bool kAnywhere>
struct SequenceOf {
  const Params& p;
  int batch;

  __device__ int queries() const {
    if constexpr (kAnywhere)
      if (p.query_offsets.data != nullptr)
        return max(offset(p.query_offsets, batch + 1, p.sizes.queries) - first_query(), 0);
    return p.sizes.queries;
  }
  __device__ int keys() const {
    if constexpr (kAnywhere) {
      if (p.kv.offsets.data != nullptr)
        return max(offset(p.kv.offsets, batch + 1, p.sizes.keys) - first_key(), 0);
      if (p.kv.pages.table != nullptr && p.kv.pages.count == 0) return 0;
    }
    if (p.kv.lengths_i32 != nullptr)
      return min(max(p.kv.lengths_i32[batch * p.kv.lengths_stride], 0), p.sizes.keys);
    if (p.kv.lengths_i64 != nullptr)
      return clamped(p.kv.lengths_i64[batch * p.kv.lengths_stride], p.sizes.keys);
    return p.sizes.keys;
  }
  // Its first row and key, where those of all entries lie one behind the other.
  __device__ int first_query() const {
    return kAnywhere && p.query_offsets.data != nullptr ? offset(p.query_offsets, batch, p.sizes.queries) : 0;
  }
  __device__ int first_key() const {
    return kAnywhere && p.kv.offsets.data != nullptr ? offset(p.kv.offsets, batch, p.sizes.keys) : 0;
  }
  __device__ Band band() const {
    const int all = keys();
    return {all, p.visibility.align_bottom_right != 0 ? all - queries() : 0, p.visibility.left,
            p.visibility.right};
  }

 private:
  __device__ static int clamped(long long x, int most) {
    return static_cast<int>(x < 0 ? 0 : x > most ? most : x);
  }
  __device__ static int offset(const Offsets& offsets, int n, int most) {
    const long long at = n * offsets.stride;
    return offsets.wide != 0 ? clamped(static_cast<const long long*>(offsets.data)[at], most)
                             : min(max(static_cast<const int*>(offsets.data)[at], 0), most);
  }
};
using Sequence = SequenceOf<false>;
using AnySequence = SequenceOf<true>;
// Whether a sequence's answers are read from memory, which kernels before this one may still be writing.
__device__ inline bool reads_lengths(const Params& p) {
  return p.kv.lengths_i32 != nullptr || p.kv.lengths_i64 != nullptr || p.query_offsets.data != nullptr ||
         p.kv.offsets.data != nullptr;
}

template <class T, bool kAnywhere = false>
struct BlockView {
  const T* query;  // of this batch entry
  T* output;       // the same; of another type than T where Outputs says so
  float* lse;      // or null
  const T* key;    // row 0 of this K/V head; of page 0
  const T* value;
  int batch, first_head;
  int first_query;   // where this entry's rows begin among all
  const int* pages;  // this entry's part of the table, or null
  Divider pack;
  int rows;  // queries * pack
  Band band;

  __device__ int query_of(int row) const { return pack.divide(row); }
  __device__ RowIndex index(int row) const {
    const int query_index = query_of(row);
    return {query_index, first_head + row - query_index * static_cast<int>(pack.divisor)};
  }
};

template <class T>
using AnyView = BlockView<T, true>;

// `pack_index` counts packs of heads within batch entry b.
template <class T, bool kAnywhere = false>
__device__ inline BlockView<T, kAnywhere> block_view(const Params& p, int b, int pack_index) {
  const int pack = static_cast<int>(p.pack.divisor), first_head = pack_index * pack;
  const int kv = pack == p.sizes.group ? pack_index : first_head / p.sizes.group;
  const SequenceOf<kAnywhere> sequence{p, b};
  BlockView<T, kAnywhere> v;
  v.query = static_cast<const T*>(p.query.data) + b * p.query.strides.batch;
  v.output = static_cast<T*>(p.output.data) + b * p.output.strides.batch;
  v.lse = p.output.lse == nullptr ? nullptr : p.output.lse + b * p.output.lse_strides.batch;
  v.key = static_cast<const T*>(p.kv.key.data) + kv * p.kv.key.strides.head;
  v.value = static_cast<const T*>(p.kv.value.data) + kv * p.kv.value.strides.head;
  v.pages = nullptr;
  v.first_query = sequence.first_query();
  if (kAnywhere && p.kv.pages.table != nullptr) {
    v.pages = p.kv.pages.table + b * p.kv.pages.batch_stride;
  } else {
    v.key += b * p.kv.key.strides.batch + sequence.first_key() * p.kv.key.strides.row;
    v.value += b * p.kv.value.strides.batch + sequence.first_key() * p.kv.value.strides.row;
  }
  if constexpr (kAnywhere) {
    v.query += v.first_query * p.query.strides.row;
    const long long before = v.first_query * p.output.strides.row;
    v.output =
        sizeof(T) == 2 && p.output.f32 != 0
            ? reinterpret_cast<T*>(static_cast<float*>(p.output.data) + b * p.output.strides.batch + before)
            : v.output + before;
    if (v.lse != nullptr) v.lse += v.first_query * p.output.lse_strides.row;
  }
  v.batch = b;
  v.first_head = first_head;
  v.pack = p.pack;
  v.rows = sequence.queries() * pack;
  v.band = sequence.band();
  return v;
}

template <class T, bool kAnywhere>
__device__ inline const T* query_row(const Params& p, const BlockView<T, kAnywhere>& v, RowIndex at) {
  return v.query + at.head * p.query.strides.head + at.query * p.query.strides.row;
}
template <class T, bool kAnywhere>
__device__ inline T* output_row(const Params& p, const BlockView<T, kAnywhere>& v, RowIndex at) {
  return v.output + at.head * p.output.strides.head + at.query * p.output.strides.row;
}
template <class T, bool kAnywhere>
__device__ inline void write_lse(const Params& p, const BlockView<T, kAnywhere>& v, RowIndex at, float lse) {
  if (v.lse != nullptr)
    v.lse[at.head * p.output.lse_strides.head + at.query * p.output.lse_strides.row] = lse;
}

// Of an entry in pages. The table is asked for keys that some row sees, and no others.
__device__ inline int page_of(const Params& p, const int* pages, int key) {
  const int page = pages[p.kv.pages.rows.divide(key) * p.kv.pages.stride];
  return min(max(page, 0), p.kv.pages.count - 1);
}
__device__ inline int row_in_page(const Params& p, int key) {
  return key - p.kv.pages.rows.divide(key) * static_cast<int>(p.kv.pages.rows.divisor);
}
template <class T, bool kAnywhere>
__device__ inline long long row_offset(const Params& p, const BlockView<T, kAnywhere>& v,
                                       const Strides& strides, int key) {
  if (kAnywhere && v.pages != nullptr) {
    return page_of(p, v.pages, key) * strides.batch + row_in_page(p, key) * strides.row;
  }
  return key * strides.row;
}
template <class T, bool kAnywhere>
__device__ inline const T* key_row(const Params& p, const BlockView<T, kAnywhere>& v, int key) {
  return v.key + row_offset(p, v, p.kv.key.strides, key);
}
template <class T, bool kAnywhere>
__device__ inline const T* value_row(const Params& p, const BlockView<T, kAnywhere>& v, int key) {
  return v.value + row_offset(p, v, p.kv.value.strides, key);
}

}  // namespace tessera::cuda::tile
