// K and V from global to shared memory, a tile at a time.
#pragma once

#include "cuda/ptx/async_copy.hpp"
#include "cuda/serving/configs.hpp"
#include "cuda/sm80/loads.hpp"
#include "cuda/tile/band.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::serving {

// Where the rows of a key are that lies in a page, in elements from the head's row 0 of page 0.
struct PagedRow {
  long long of[2];  // K's, V's
};

// Rows of kDim elements, as many as a tile has keys. In a pass the block's threads copy a chunk of 16 bytes
// each, of whole rows.
template <Config C, class T, int kDim, int kWhich>
struct TileLoad {
  static constexpr int kThreads = C.tile.threads(), kChunks = kDim / 8;
  static constexpr int kPassRows = kThreads / kChunks, kPasses = (C.keys() + kPassRows - 1) / kPassRows;

  const T* rows;  // row 0, or that of page 0
  long long stride;
  int dim;

  __device__ static int row() { return ptx::thread_x() / kChunks; }
  __device__ static int chunk() { return ptx::thread_x() % kChunks; }
  // Whether the thread has a chunk to copy in pass i.
  __device__ bool copies(int i) const {
    return (kPassRows * kChunks == kThreads || row() < kPassRows) &&
           (C.keys() % kPassRows == 0 || row() + i * kPassRows < C.keys());
  }

  // All rows are there, one behind the other from here on.
  __device__ void load_all(unsigned to, long long first) const {
    const T* from = rows + first + row() * stride + chunk() * 8;
    const bool there = chunk() * 8 < dim;
    if (!there) from = rows;
#pragma unroll(kPasses < 8 ? kPasses : 8)
    for (int i = 0; i < kPasses; ++i) {
      if (copies(i))
        ptx::copy_async_16(to + C.template chunk_offset<kDim, C.keys()>(row() + i * kPassRows, chunk()), from,
                           there);
      if (there) from += kPassRows * stride;
    }
  }
  // All rows are there, where `paged` says.
  __device__ void load_paged(unsigned to, const PagedRow* paged) const {
    const bool there = chunk() * 8 < dim;
    const T* const from = there ? rows + chunk() * 8 : rows;
#pragma unroll(kPasses < 8 ? kPasses : 8)
    for (int i = 0; i < kPasses; ++i) {
      if (!copies(i)) continue;
      ptx::copy_async_16(to + C.template chunk_offset<kDim, C.keys()>(row() + i * kPassRows, chunk()),
                         from + paged[row() + i * kPassRows].of[kWhich], there);
    }
  }
  // Rows that are not in `seen` are not read, and become zeros. kWhole: rows are whole chunks. `paged`: or
  // null.
  template <bool kWhole>
  __device__ void load_seen(unsigned to, int first, const tile::KeyRange& seen, const PagedRow* paged) const {
#pragma unroll 1
    for (int i = 0; i < kPasses; ++i) {
      const int in_tile = row() + i * kPassRows, key = first + in_tile;
      if (!copies(i)) continue;
      const bool there = key >= seen.begin && key < seen.end && chunk() * 8 < dim;
      const T* from = rows;
      if (there) from += (paged == nullptr ? key * stride : paged[in_tile].of[kWhich]) + chunk() * 8;
      const unsigned slot = to + C.template chunk_offset<kDim, C.keys()>(in_tile, chunk());
      if constexpr (kWhole) {
        ptx::copy_async_16(slot, from, there);
      } else {
        sm80::copy_elements(slot, from, there ? dim - chunk() * 8 : 0);
      }
    }
  }
};

// The packed rows from `first` on, as many as a block has; row_pointer(r): where row r lies.
template <Config C, class T, class RowPointer>
__device__ inline void load_query(unsigned to, int dim, int first, int end, const RowPointer& row_pointer) {
  constexpr int kChunks = C.tile.dim / 8;
#pragma unroll 4
  for (int n = static_cast<int>(threadIdx.x); n < C.rows() * kChunks; n += C.tile.threads()) {
    const int row = n / kChunks, chunk = n % kChunks;
    const bool there = first + row < end && chunk * 8 < dim;
    sm80::copy_elements(to + C.template chunk_offset<C.tile.dim, C.rows()>(row, chunk),
                        row_pointer(there ? first + row : 0) + (there ? chunk * 8 : 0),
                        there ? dim - chunk * 8 : 0);
  }
}

// Both, of one sequence.
template <Config C, class T>
struct Loads {
  const Params& p;
  TileLoad<C, T, C.tile.dim, 0> key;
  TileLoad<C, T, C.tile.value_dim, 1> value;
  tile::KeyRange seen;
  bool whole_chunks;
  unsigned ring;  // shared memory
  // In pages: the entry's part of the table, or null; and in shared memory, for each slot of the ring, where
  // the rows of its tile are, which is looked up before the tile is asked for.
  const int* pages;
  PagedRow* paged;
  bool one_page;  // a tile lies in one page

  // The page that key n of tile t is in, if it is seen; and noted, for the slot that the tile comes into.
  __device__ int look_up(int t, int n) const {
    const int key = t * C.keys() + n;
    return key >= seen.begin && key < seen.end ? tile::page_of(p, pages, key) : 0;
  }
  __device__ void note(int t, int slot, int n, int page) const {
    const long long row = tile::row_in_page(p, t * C.keys() + n);
    paged[slot * C.keys() + n] = {{page * p.kv.key.strides.batch + row * p.kv.key.strides.row,
                                   page * p.kv.value.strides.batch + row * p.kv.value.strides.row}};
  }
  __device__ void start(int t, int slot) const {
    const unsigned to_key = ring + slot * C.tile.key_bytes(),
                   to_value = ring + C.tile.stages * C.tile.key_bytes() + slot * C.tile.value_bytes();
    const PagedRow* const where = pages == nullptr ? nullptr : paged + slot * C.keys();
    const int first = t * C.keys();
    if (!whole_chunks) {
      key.template load_seen<false>(to_key, first, seen, where);
      value.template load_seen<false>(to_value, first, seen, where);
    } else if (first < seen.begin || first + C.keys() > seen.end) {
      key.template load_seen<true>(to_key, first, seen, where);
      value.template load_seen<true>(to_value, first, seen, where);
    } else if (where == nullptr) {
      key.load_all(to_key, first * key.stride);
      value.load_all(to_value, first * value.stride);
    } else if (one_page) {
      key.load_all(to_key, where[0].of[0]);
      value.load_all(to_value, where[0].of[1]);
    } else {
      key.load_paged(to_key, where);
      value.load_paged(to_value, where);
    }
  }
};

}  // namespace tessera::cuda::serving
