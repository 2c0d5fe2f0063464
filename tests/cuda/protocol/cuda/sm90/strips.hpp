// Stands in for src/cuda/sm90/strips.hpp: both strips of a tile are one copy, of whole kilobytes.
#pragma once

#include "cuda/sm90/params.hpp"
#include "cuda/sm90/shared.hpp"

namespace tessera::cuda::sm90 {

template <int kBlocks, int kRows>
void copy_with_strips(char* to, const TensorMap* map, const TensorMap*, int, tile::Barrier& full, int row,
                      int head, int batch) {
  constexpr unsigned kFirst = kBlocks * kRows * 128, kStrips = (kRows * 32 + 1023) / 1024 * 1024;
  const testing_cuda::Piece piece{map->kind, row, head, batch};
  full.expect(kFirst + kStrips);
  testing_cuda::machine->copy(ptx::shared_address(to), kFirst, piece, full.address());
  testing_cuda::machine->copy(ptx::shared_address(to) + kFirst, kStrips, piece, full.address());
}

}  // namespace tessera::cuda::sm90
