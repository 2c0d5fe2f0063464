// The key tiles that rows of a tile visit, last to first; there may be none.
#pragma once

#include "cuda/sm90/walk.hpp"
#include "cuda/sm90_f32/config.hpp"

namespace tessera::cuda::sm90_f32 {

// The keys that rows first ... first + count - 1 see, as far as there are such rows.
__device__ inline tile::KeyRange keys_of(const tile::BlockView<float>& view, int first, int count) {
  if (first >= view.rows) return {};
  return tile::key_range(view.band, view.query_of(first), view.query_of(min(first + count, view.rows) - 1));
}

template <Config C>
__device__ inline sm90::KeyTiles key_tiles(const tile::KeyRange& range) {
  return sm90::tiles_of<C>(range, {0, 0});
}

}  // namespace tessera::cuda::sm90_f32
