// What a block of any rung knows: its query rows, the keys that they see, and the tiles to cut those into.
//
//   keys    0 ....... begin [ tile 0 ][ tile 1 ][ tile 2 ][ til.. end ....... keys
//                            some hidden  none hidden  some hidden
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/tile/softmax.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::ladder {

// All of a rung's shared memory: Shape::shared_bytes(dim) of the launch.
extern __shared__ __align__(128) unsigned char shared_memory[];

// Opaque: else what follows from them is kept from tile to tile, and registers run out.
__device__ inline int lane_index() { return static_cast<int>(ptx::opaque(threadIdx.x) % 32); }
__device__ inline int warp_index() { return static_cast<int>(ptx::opaque(threadIdx.x) / 32); }

template <class T, int kRowsPerBlock, int kKeysPerTile>
struct Block {
  static constexpr int kRows = kRowsPerBlock, kKeys = kKeysPerTile;
  const Params& p;
  tile::BlockView<T> view;
  int first_row;
  int begin, end;  // of the keys that some row sees

  // Grid: row tiles, heads, batch entries. A block is described once for the loop over its tiles and again
  // for the end: special registers are read anew, so that what only the end needs is not kept through the
  // loop.
  __device__ explicit Block(const Params& params)
      : p(params),
        view(tile::block_view<T>(p, ptx::block_z(), ptx::block_y())),
        first_row(row_tile() * kRows),
        begin(0),
        end(0) {
    const tile::KeyRange range = tile::key_range(view.band, first_row, min(first_row + kRows, view.rows) - 1);
    begin = range.begin;
    end = range.end;
  }

  __device__ int row_tile() const {
    const int x = ptx::block_x();
    return p.longest_first != 0 ? static_cast<int>(gridDim.x) - 1 - x : x;
  }
  __device__ int queries() const { return tile::Sequence{p, view.batch}.queries(); }
  __device__ int tiles() const { return (end - begin + kKeys - 1) / kKeys; }
  __device__ int first_key(int t) const { return begin + t * kKeys; }
  __device__ bool some_hidden(int t) const {
    const int first = first_row + view.band.offset,
              last = min(first_row + kRows, queries()) - 1 + view.band.offset;
    return first_key(t) < last - p.visibility.left ||
           first_key(t) + kKeys > min(first + p.visibility.right + 1, view.band.keys);
  }

  // What there is to load: rows from the block's first, keys from the tile's first. The rest is zeros.
  __device__ int rows() const { return min(kRows, queries() - first_row); }
  __device__ int keys(int t) const { return min(kKeys, end - first_key(t)); }
  __device__ const T* query() const { return tile::query_row(p, view, index(0)); }
  __device__ const T* key(int t) const { return view.key + first_key(t) * p.kv.key.strides.row; }
  __device__ const T* value(int t) const { return view.value + first_key(t) * p.kv.value.strides.row; }

  // `row` counts from the block's first.
  __device__ bool exists(int row) const { return first_row + row < queries(); }
  __device__ tile::RowIndex index(int row) const { return {first_row + row, view.first_head}; }
  __device__ T* output(int row) const { return tile::output_row(p, view, index(row)); }
  __device__ void write_lse(int row, const tile::SoftmaxState& state) const {
    tile::write_lse(p, view, index(row), tile::log_sum_exp(state));
  }
};

}  // namespace tessera::cuda::ladder
