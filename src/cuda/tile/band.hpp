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

// One past the last key that a position sees, from begin to end. A position past the keys counts as their
// end, which it sees as far as; so the sum fits an int (kFarAway in params.hpp).
TESSERA_HOST_DEVICE int seen_end(const Band& band, int position, int begin, int end) {
  const int last = (position < band.keys ? position : band.keys) + band.right;
  return clamp_int(last, begin - 1, end - 1) + 1;
}

// For rows first ... last, both included. Blocks wait for this before they ask for keys: 32 bits are enough.
TESSERA_HOST_DEVICE KeyRange key_range(const Band& band, int first, int last) {
  const int first_position = first + band.offset, last_position = last + band.offset;
  KeyRange range;
  range.begin = clamp_int(first_position - band.left, 0, band.keys);
  range.end = seen_end(band, last_position, range.begin, band.keys);
  range.full_begin = clamp_int(last_position - band.left, range.begin, range.end);
  range.full_end = seen_end(band, first_position, range.begin, range.end);
  return range;
}

}  // namespace tessera::cuda::tile
