// K and V from global to shared memory, a tile at a time.
#pragma once

#include "cuda/decode/configs.hpp"
#include "cuda/ptx/async_copy.hpp"
#include "cuda/ptx/cache_policy.hpp"
#include "cuda/sm80/loads.hpp"
#include "cuda/tile/band.hpp"

namespace tessera::cuda::decode {

// Rows of kDim elements, as many as a tile has keys. In a pass the block's threads copy a chunk of 16 bytes
// each, of whole rows.
template <Config C, class T, int kDim>
struct TileLoad {
  static constexpr int kThreads = C.tile.threads(), kChunks = kDim / 8;
  static constexpr int kPassRows = kThreads / kChunks, kPasses = (C.keys() + kPassRows - 1) / kPassRows;

  const T* rows;  // row 0
  long long stride;
  int dim;
  // K and V, of which each call reads more than L2 holds, must not drive out what every call reads again: the
  // kernel's instructions above all, which come from memory otherwise.
  unsigned long long policy = ptx::evict_first_policy();

  __device__ static int row() { return ptx::thread_x() / kChunks; }
  __device__ static int chunk() { return ptx::thread_x() % kChunks; }
  // Whether the thread has a chunk to copy in pass i.
  __device__ bool copies(int i) const {
    return (kPassRows * kChunks == kThreads || row() < kPassRows) &&
           (C.keys() % kPassRows == 0 || row() + i * kPassRows < C.keys());
  }

  // All rows from `first` on are there.
  __device__ void load_all(unsigned to, int first) const {
    const T* from = rows + (first + row()) * stride + chunk() * 8;
    const bool there = chunk() * 8 < dim;
    if (!there) from = rows;
#pragma unroll(kPasses < 8 ? kPasses : 8)
    for (int i = 0; i < kPasses; ++i) {
      if (copies(i))
        ptx::copy_async_16(to + tile::chunk_offset<kDim>(row() + i * kPassRows, chunk()), from, there,
                           policy);
      if (there) from += kPassRows * stride;
    }
  }
  // Rows that are not in `seen` are not read, and become zeros. kWhole: rows are whole chunks.
  template <bool kWhole>
  __device__ void load_seen(unsigned to, int first, const tile::KeyRange& seen) const {
#pragma unroll 1
    for (int i = 0; i < kPasses; ++i) {
      const int key = first + row() + i * kPassRows;
      const bool there = key >= seen.begin && key < seen.end && chunk() * 8 < dim;
      const T* const from = rows + (there ? key * stride + chunk() * 8 : 0);
      const unsigned slot = to + tile::chunk_offset<kDim>(row() + i * kPassRows, chunk());
      if (!copies(i)) continue;
      if constexpr (kWhole) {
        ptx::copy_async_16(slot, from, there, policy);
      } else {
        sm80::copy_elements(slot, from, there ? dim - chunk() * 8 : 0);
      }
    }
  }
};

// Both, of one sequence.
template <Config C, class T>
struct Loads {
  TileLoad<C, T, C.tile.dim> key;
  TileLoad<C, T, C.tile.value_dim> value;
  tile::KeyRange seen;
  bool whole_chunks;
  unsigned ring;  // shared memory

  __device__ void start(int t, int slot) const {
    const unsigned to_key = ring + slot * C.tile.key_bytes(),
                   to_value = ring + C.tile.stages * C.tile.key_bytes() + slot * C.tile.value_bytes();
    const int first = t * C.keys();
    if (!whole_chunks) {
      key.template load_seen<false>(to_key, first, seen);
      value.template load_seen<false>(to_value, first, seen);
    } else if (first >= seen.begin && first + C.keys() <= seen.end) {
      key.load_all(to_key, first);
      value.load_all(to_value, first);
    } else {
      key.template load_seen<true>(to_key, first, seen);
      value.template load_seen<true>(to_value, first, seen);
    }
  }
};

}  // namespace tessera::cuda::decode
