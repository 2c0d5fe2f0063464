// The list of tiles of a problem, as the blocks receive it.
#pragma once

#include "cuda/sm90/choose.hpp"
#include "cuda/sm90/schedule.hpp"

namespace tessera::cuda::sm90 {

inline Schedule make_schedule(const Choice& choice, int heads) {
  return {static_cast<int>(choice.row_tiles), choice.paired ? 1 : 0,
          tile::make_divider(static_cast<int>(choice.units)), tile::make_divider(heads),
          static_cast<int>(choice.total)};
}

}  // namespace tessera::cuda::sm90
