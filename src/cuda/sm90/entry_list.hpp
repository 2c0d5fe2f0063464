// The row tiles of a ragged or paged batch, listed on the device (list_entries.hpp): who has how many rows,
// only memory says. The list is in the workspace.
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda::sm90 {

// An entry of the batch that has rows enough; what memory says of it, clamped.
struct alignas(16) ListedEntry {
  int first_query, queries;
  int first_key, keys;
  int batch;
  // Of its row tiles, those that come before everybody's short ones, and its place among entries.
  int long_tiles, bucket;
  int unused;
};

struct alignas(16) ListedTile {
  int row_tile, head;
  int entry;  // of the listed ones
  int block;  // that took it; -1: none so far
};

struct ListHeader {
  int taken;  // tiles that blocks have asked for, beyond the first of each
  int tiles;
};

struct EntryList {
  ListHeader* header;
  ListedEntry* entries;
  ListedTile* tiles;
};

}  // namespace tessera::cuda::sm90
