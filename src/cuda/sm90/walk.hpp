// The key tiles that a row tile visits, last to first: where a diagonal or the end of the keys needs masking,
// it is met first, and the long stretch behind it needs none.
#pragma once

#include "cuda/sm90/config.hpp"
#include "cuda/sm90/params.hpp"
#include "cuda/tile/view.hpp"

namespace tessera::cuda::sm90 {

struct KeyTiles {
  int first, count;  // tiles first + count - 1 ... first; at least one
};

// Of keys [begin, end), if there are any; else `none`.
template <auto C>
__device__ inline KeyTiles tiles_of(const tile::KeyRange& range, const KeyTiles& none) {
  if (range.end <= range.begin) return none;
  const int first = range.begin / C.keys;
  return {first, (range.end - 1) / C.keys + 1 - first};
}

template <auto C>
__device__ inline KeyTiles key_tiles(const tile::Band& band, int queries, int row_tile) {
  const int first_row = row_tile * C.rows(), last_row = min(first_row + C.rows(), queries) - 1;
  // Nothing to see: one tile, all of it hidden.
  return tiles_of<C>(tile::key_range(band, first_row, last_row), {0, 1});
}

// With ALiBi the nearest keys count most, and a row max that was taken far away would have to move in every
// tile on the way there. So where rows see keys on both sides, they are visited from the diagonal down, then
// from the last to those behind it: tile n is tile n - `rotation`, or so many further on.
template <auto C>
__device__ inline int rotation_of(const tile::Band& band, int row_tile, const KeyTiles& keys) {
  if (band.left < kFarAway || band.right < kFarAway) return 0;
  const int middle = row_tile * C.rows() + C.rows() / 2 + band.offset;
  return keys.count - 1 - min(max(middle / C.keys, 0), keys.count - 1);
}
__device__ inline int rotated(const KeyTiles& keys, int tile, int rotation) {
  const int other = tile - rotation;
  return other < keys.first ? other + keys.count : other;
}

// The tiles [begin, end) that need no masking for the rows of one warpgroup.
template <auto C>
__device__ inline int2 unmasked_tiles(const tile::KeyRange& range) {
  return make_int2((range.full_begin + C.keys - 1) / C.keys, range.full_end / C.keys);
}

}  // namespace tessera::cuda::sm90
