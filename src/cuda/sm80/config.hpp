// Tile sizes of the mma.sync kernels: one commented row per head dim and arch, chosen by the same function
// on the host (for the launch) and on the device (for the code), so that the two cannot disagree.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::sm80 {

struct Config {
  int dim, value_dim;    // padded head dims; value_dim <= dim
  int row_warps = 4;     // warps side by side over query rows
  int row_tiles = 1;     // 16-row tiles a warp owns: 2 halve the shared-memory reads per product
  int key_splits = 1;    // warps side by side over keys; their results are merged at the end
  int keys = 32;         // keys a warp takes at a time
  int stages = 2;        // K and V tiles in flight
  bool overlap = false;  // the next tile's Q K is issued before this tile's softmax
  bool query_in_registers = false;
  int min_blocks = 2;  // blocks per SM that the register budget aims at
  bool lazy = false;   // how the row max moves: see softmax.hpp
  int element_bytes = 2;

  TESSERA_CONSTEXPR int rows() const { return row_warps * row_tiles * 16; }
  TESSERA_CONSTEXPR int warps() const { return row_warps * key_splits; }
  TESSERA_CONSTEXPR int threads() const { return warps() * 32; }
  TESSERA_CONSTEXPR int tile_keys() const { return keys * key_splits; }
  TESSERA_CONSTEXPR int query_bytes() const { return rows() * dim * element_bytes; }
  TESSERA_CONSTEXPR int key_bytes() const { return tile_keys() * dim * element_bytes; }
  TESSERA_CONSTEXPR int value_bytes() const { return tile_keys() * value_dim * element_bytes; }
  TESSERA_CONSTEXPR int ring_bytes() const { return stages * (key_bytes() + value_bytes()); }
  // Splits but the first leave O and, once per thread, row max and sum in the ring for the merge.
  TESSERA_CONSTEXPR int merge_bytes() const { return (key_splits - 1) * rows() * (value_dim + 8) * 4; }
  TESSERA_CONSTEXPR int visible_offset() const {
    return query_bytes() + (ring_bytes() > merge_bytes() ? ring_bytes() : merge_bytes());
  }
  // The query tile, the ring, and what the loop has no registers for: for every row the first key it sees and
  // the first it sees no more, then the tiles that need no masking and the block's first key.
  TESSERA_CONSTEXPR int unmasked_offset() const { return visible_offset() + rows() * 8; }
  TESSERA_CONSTEXPR int first_key_offset() const { return unmasked_offset() + 8; }
  TESSERA_CONSTEXPR int shared_bytes() const { return first_key_offset() + 8; }
};

}  // namespace tessera::cuda::sm80
