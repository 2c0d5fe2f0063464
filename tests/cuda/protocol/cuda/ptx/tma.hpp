// Stands in for src/cuda/ptx/tma.hpp: see machine.hpp. A tensor map says which tensor it is of and
// how many rows a box has.
#pragma once

#include "machine.hpp"

namespace tessera::cuda {

struct TensorMap {
  testing_cuda::Piece::Kind kind;
  int box_rows;
};

namespace ptx {

// Of a mask's row tile, the piece's row is its first key.
inline void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int column, int row, int head,
                     int batch) {
  const bool mask = map->kind == testing_cuda::Piece::mask;
  testing_cuda::machine->copy(to, static_cast<unsigned>(map->box_rows) * 128,
                              {map->kind, mask ? column : row, head, batch}, barrier);
}
inline void bulk_load(unsigned, const void*, unsigned, unsigned) {
  testing_cuda::machine->fail("masks of bits are not tried here");
}

}  // namespace ptx
}  // namespace tessera::cuda
