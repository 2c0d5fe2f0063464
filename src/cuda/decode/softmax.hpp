// The softmax of a tile of scores. The keys of a row are dealt out to the block's warps; all of them go by
// the same row max, which they find together, and each adds up its own keys.
#pragma once

#include "cuda/decode/configs.hpp"
#include "cuda/sm80/mainloop.hpp"
#include "cuda/sm80/softmax.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::decode {

// Which rows and columns of O a warp has, and its lane.
template <Config C>
struct Warp {
  int lane, row, split;

  __device__ Warp()
      : lane(static_cast<int>(threadIdx.x) % 32),
        row(static_cast<int>(threadIdx.x) / 32 % C.tile.row_warps * C.tile.row_tiles * 16),
        split(static_cast<int>(threadIdx.x) / 32 / C.tile.row_warps) {}
  // Row r (0 or 1) of this thread's in tile m, within the block's.
  __device__ int row_of(int m, int r) const { return row + sm80::thread_row(lane, m, r); }
  __device__ int column() const { return split * C.columns() + 2 * (lane % 4); }  // the thread's first
};

// A thread's rows, two of each tile of 16.
template <Config C>
struct Rows {
  tile::RowState tiles[C.tile.row_tiles];

  __device__ void start() {
#pragma unroll
    for (int m = 0; m < C.tile.row_tiles; ++m) tiles[m] = tile::empty_rows();
  }
};

// The largest score of each row, over all warps that have keys of it. `stats`: shared memory.
template <Config C>
__device__ inline void find_largest(const sm80::Scores<C.tile>& s, float* stats, const Warp<C>& w,
                                    float (&largest)[C.tile.row_tiles][2]) {
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m) tile::find_largest<1>(s[m], largest[m], 0, 2);
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (w.lane % 4 == 0) stats[w.split * C.rows() + w.row_of(m, r)] = largest[m][r];
  __syncthreads();
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int split = 0; split < C.tile.key_splits; ++split)
        largest[m][r] = fmaxf(largest[m][r], stats[split * C.rows() + w.row_of(m, r)]);
}

// Moves the row max where the largest score is far above it; each row decides for itself. True if some row of
// the warp moved: `shrink` then says what its part of O is to be multiplied by.
template <Config C, class Factor>
__device__ inline bool move_rows(Rows<C>& rows, const float (&largest)[C.tile.row_tiles][2], Factor factor,
                                 float (&shrink)[C.tile.row_tiles][2]) {
  bool moved = false;
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float row_max = rows.tiles[m].row_max[r];
      const bool grew = sm80::rise(largest[m][r], row_max, factor) > sm80::kSlack;
      shrink[m][r] =
          tile::move_row_max(rows.tiles[m], r, grew ? tile::row_max_of(factor, largest[m][r]) : row_max);
      moved |= grew;
    }
  return __any_sync(0xffffffffu, moved);
}

// P of this warp's keys, in shared memory where all warps find it: a row of keys for each packed row.
template <Config C>
__device__ inline void show_probs(const sm80::Probs<C.tile>& probs, char* memory, const Warp<C>& w) {
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int at = tile::chunk_offset<kTileKeys>(w.row_of(m, r), 2 * w.split + n);
        *reinterpret_cast<unsigned*>(memory + at + 4 * (w.lane % 4)) = probs[m][0][2 * n + r];
      }
}

// The sums of rows, over all warps that have keys of them, in their order.
template <Config C>
__device__ inline void join_sums(Rows<C>& rows, float* stats, const Warp<C>& w) {
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m) tile::join_sums(rows.tiles[m]);
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (w.lane % 4 == 0) stats[w.split * C.rows() + w.row_of(m, r)] = rows.tiles[m].sum[r];
  __syncthreads();
#pragma unroll
  for (int m = 0; m < C.tile.row_tiles; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = stats[w.row_of(m, r)];
#pragma unroll
      for (int split = 1; split < C.tile.key_splits; ++split) sum += stats[split * C.rows() + w.row_of(m, r)];
      rows.tiles[m].sum[r] = sum;
    }
}

}  // namespace tessera::cuda::decode
