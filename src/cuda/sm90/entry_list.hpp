// The row tiles of a ragged or paged batch, listed on the device (list_entries.hpp): who has how many rows,
// only memory says. The list is in the workspace.
#pragma once

#include "cuda/params.hpp"

namespace tessera::cuda::sm90 {

// What memory says of an entry of the batch, clamped.
struct ListedLengths {
  int batch;
  int first_query, queries;
  int first_key, keys;
};

// Row tile -1: there are no more. Behind the last there is one such for every block.
struct alignas(16) ListedTile {
  int row_tile, head;
  ListedLengths of;
  int block;  // that took it; -1: none so far
};

// While the list is made: of an entry that has rows enough, how many of its row tiles are of each rank, and
// where in the list those begin (list_entries.hpp).
inline constexpr int kRanks = 5;
struct ListedEntry {
  ListedLengths of;
  int tiles[kRanks], first[kRanks];
};

struct EntryList {
  int* taken;  // how many tiles blocks have asked for, beyond the first of each
  ListedTile* tiles;
  ListedEntry* entries;
};

}  // namespace tessera::cuda::sm90
