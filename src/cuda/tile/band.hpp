// Which keys a query row sees by position, and which key tiles a block of rows must visit:
//
//   keys      0 ....... begin ==== full_begin ==== full_end ==== end ....... keys
//                        partly        all rows see        partly
//
// Tiles outside [begin, end) are skipped; only tiles that touch a "partly" stretch need masking.
#pragma once

#include "cuda/tile/host_device.hpp"

namespace tessera::cuda::tile {

struct Band {
  int keys;         // of this batch entry
  int offset;       // query i stands at position i + offset
  int left, right;  // position p sees p - left ... p + right

  TESSERA_HOST_DEVICE bool visible(int query, int key) const {
    const int position = query + offset;
    return key < keys && key >= position - left && key <= position + right;
  }
};

struct KeyRange {
  int begin, end;            // keys that some row sees
  int full_begin, full_end;  // keys that every row sees; empty if full_end <= full_begin
};

TESSERA_HOST_DEVICE int clamp_int(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

// For rows first ... last, both included. Blocks wait for this before they ask for keys, so it is done in 32
// bits: the last query stands before the last key at most, and positions are within kMaxLength (params.hpp)
// on both sides of 0; that and kFarAway on top of it fit an int.
TESSERA_HOST_DEVICE KeyRange key_range(const Band& band, int first, int last) {
  const int first_position = first + band.offset, last_position = last + band.offset;
  KeyRange range;
  range.begin = clamp_int(first_position - band.left, 0, band.keys);
  range.end = clamp_int(last_position + band.right + 1, range.begin, band.keys);
  range.full_begin = clamp_int(last_position - band.left, range.begin, range.end);
  range.full_end = clamp_int(first_position + band.right + 1, range.begin, range.end);
  return range;
}

}  // namespace tessera::cuda::tile
