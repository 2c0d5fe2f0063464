// What the pass over a mask tensor receives (pass.hpp).
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda::mask {

inline constexpr int kGranuleRows = 64;
inline constexpr int kGranuleKeys = 64;
inline constexpr int kTilesTogether = 4;  // the states of so many granules of a row are read at once
inline constexpr int kBlockKeys = 1024;   // that a block of the pass looks at
inline constexpr int kThreads = 256;

struct PassParams {
  const void* mask;
  long long strides[4];  // batch, head, query, key, in elements
  MaskTensorKind kind;
  int heads;         // of the mask: 1 where it is the same for all
  int rows, keys;    // the same for rows
  int row_granules;  // of a head
  int chunks;        // of kBlockKeys keys
  int tiles;         // granules of a row, a multiple of kTilesTogether
  int whole_chunks;  // rows are of 16 bytes: read by so many at a time
  float least_bias;  // ScoreUnits'
  unsigned char* states;
  unsigned* bits;  // of a boolean mask; null: they are not wanted
  // An additive mask that TMA could not read is copied to rows of this many elements; null: it can.
  void* copy;
  long long copy_row;
  // How many row tiles have been dealt out, then to whom each: set to 0, and to -1, nobody; or null.
  int* dealt;
  int row_tiles;
};

}  // namespace tessera::cuda::mask
