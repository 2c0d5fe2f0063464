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

inline void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int, int row, int head, int batch) {
  testing_cuda::machine->copy(to, static_cast<unsigned>(map->box_rows) * 128, {map->kind, row, head, batch},
                              barrier);
}

}  // namespace ptx
}  // namespace tessera::cuda
