// From dot products of codes to P: scales, options, and the online softmax, eager as sm80's.
#pragma once

#include "cuda/ptx/registers.hpp"
#include "cuda/sm89/configs.hpp"
#include "cuda/sm89/params.hpp"
#include "cuda/tile/coded_rows.hpp"
#include "cuda/tile/options.hpp"
#include "cuda/tile/row_softmax.hpp"

namespace tessera::cuda::sm89 {

// Where a block and its threads are. What the loop has no registers for is worked out again.
struct Place {
  int first_row;     // of the block
  int keys, offset;  // of the band
  int kv_head;

  __device__ Place(const Params& p, int row)
      : first_row(row),
        keys(tile::Sequence{p, batch()}.keys()),
        offset(tile::Sequence{p, batch()}.band().offset),
        kv_head(head() / p.sizes.group) {}

  __device__ static int head() { return ptx::block_y(); }
  __device__ static int batch() { return ptx::block_z(); }
  __device__ tile::Band band(const Params& p) const {
    return {keys, offset, p.visibility.left, p.visibility.right};
  }
  // Of a thread: its first row, the other is 8 behind; its first key of a tile.
  __device__ int row() const {
    const int thread = ptx::thread_x();
    return first_row + thread / 32 * 16 + thread % 32 / 4;
  }
  __device__ static int key() { return 2 * (ptx::thread_x() % 4); }
};

// What is done to a tile's dot products, which become exponents of 2. Each is rounded before the row max is
// taken from it, so that the largest weight is 1 to the last bit: an output of f32 would show it.

// Scores that are only scaled and hidden by position.
struct PlainFactor {
  float of_row;  // query's part

  __device__ PlainFactor(const Params& p, float query_scale) : of_row(p.scoring.scale_log2 * query_scale) {}
  template <int kGroups>
  __device__ void apply(float (&s)[kGroups][4], const Params& p, const Place& at, float key_scale, int key,
                        bool partly) const {
    tile::scale_all(s, of_row * key_scale);
    if (!partly) return;
    const tile::Band band = at.band(p);
    const int position = at.row() + band.offset, first = key + at.key();
#pragma unroll
    for (int r = 0; r < 2; ++r)
      tile::PlainScores::hide(s, r, position + 8 * r - band.left - first,
                              min(position + 8 * r + band.right + 1, band.keys) - first);
  }
};

// Every option.
struct OptionFactor {
  float of_row;

  __device__ OptionFactor(const Params&, float query_scale) : of_row(query_scale) {}
  template <int kGroups>
  __device__ void apply(float (&s)[kGroups][4], const Params& p, const Place& at, float key_scale, int key,
                        bool) const {
    tile::scale_all(s, of_row * key_scale);
    tile::change_all<false>(s, p);
    const tile::BlockView<float> view = {.batch = at.batch()};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const tile::RowIndex index = {min(at.row() + 8 * r, p.sizes.queries - 1), at.head()};
      tile::change_row(s, r, p, tile::OptionScores(p, view, index), at.band(p), key + at.key());
    }
    tile::scale_all(s, p.units.factor);
  }
};

template <Variant kVariant>
struct FactorOf {
  using Type = PlainFactor;
};
template <>
struct FactorOf<Variant::general> {
  using Type = OptionFactor;
};

// Raises the row maxima to a tile's scores and rescales what was summed.
template <int kKeyGroups, int kGroups>
__device__ inline void raise(const float (&s)[kKeyGroups][4], tile::RowState& rows, float (&o)[kGroups][4]) {
  float largest[2];
  tile::find_largest<2>(s, largest, 0, 2);
  if (!__any_sync(0xffffffffu, largest[0] > rows.row_max[0] || largest[1] > rows.row_max[1])) return;
#pragma unroll
  for (int r = 0; r < 2; ++r)
    tile::scale_row(o, r, tile::move_row_max(rows, r, fmaxf(largest[r], rows.row_max[r])));
}

}  // namespace tessera::cuda::sm89
