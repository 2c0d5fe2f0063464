// The list of tiles of a problem, as the blocks receive it.
#pragma once

#include <algorithm>

#include "cuda/sm90/schedule.hpp"

namespace tessera::cuda::sm90 {

// later_see_more: the tiles of a head are more work the later they are. by_head: batch entries of a head
// stand side by side, because they share a mask.
inline Schedule make_schedule(int row_tiles, int heads, int batch, int blocks, bool later_see_more,
                              bool by_head = false) {
  const int all_heads = heads * batch;
  Schedule s{};
  s.row_tiles = row_tiles;
  s.heads = tile::make_divider(by_head ? batch : heads);
  s.by_head = by_head ? 1 : 0;
  if (!later_see_more) {
    s.singles = row_tiles * all_heads;
    s.parts[0].divider = tile::make_divider(row_tiles);
    return s;
  }
  const int pairs = (row_tiles + 1) / 2;  // of a head
  s.parts[0].divider = tile::make_divider(pairs);
  // The last round is taken apart, and the one before; but not that where it would gain little, and would
  // have the K and V of many heads in use at once, with few blocks to share each.
  const int full_rounds = (pairs * all_heads - 1) / blocks;
  const int last_round = pairs * all_heads - full_rounds * blocks;
  const bool nearly_full = last_round > blocks - blocks / 10;
  const bool many_heads = (blocks + last_round) / pairs > blocks / 4;
  s.pair_rounds = std::max(full_rounds - (nearly_full && many_heads ? 0 : 1), 0);
  // The pairs that are taken apart begin at pair `cut` of head `first`: of this head, `cut` tiles are missing
  // at either end.
  s.sorted = 1;
  const int first = s.pair_rounds * blocks / pairs, cut = s.pair_rounds * blocks % pairs;
  const int whole = all_heads - first - 1;
  const tile::Divider of_whole = tile::make_divider(std::max(whole, 1)),
                      of_all = tile::make_divider(whole + 1);
  const int middle = cut * whole, end = middle + (row_tiles - 2 * cut) * (whole + 1);
  s.parts[1] = {0, of_whole, row_tiles - 1, first + 1};
  s.parts[2] = {middle, of_all, row_tiles - 1 - cut, first};
  s.parts[3] = {end, of_whole, cut - 1, first + 1};
  s.singles = end + middle;
  return s;
}

}  // namespace tessera::cuda::sm90
